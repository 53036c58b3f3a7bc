"""Static analysis of a topology: what a definition says that its author hardly meant.

`analyse` reads one topology, routes nothing and changes nothing. Findings are data with a code, a
severity and a documented explanation; none of them blocks a declaration.
"""

from bindery.router.analysis.finding import Finding, Report, Subject
from bindery.router.analysis.rules import RULES
from bindery.router.analysis.run import analyse

__all__ = ["RULES", "Finding", "Report", "Subject", "analyse"]
