"""What routing means: model, message schema, filters, exchanges and the engine. No Spark, HTTP or storage."""
