"""What job files say and how jobs are started, without Spark: what the control plane needs of jobs."""
