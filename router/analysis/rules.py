"""The rules of topology lint."""

from __future__ import annotations

from typing import Final

from bindery.router.lint import Rule, Severity, register

DOCUMENT: Final = "docs/topology-lint.md"

_TABLE: Final[tuple[tuple[str, str, Severity, str], ...]] = (
    ("BT101", "shadowed binding", "warning",
     "Another binding from the same exchange to the same destination accepts every message that this one "
     "accepts. One copy is made whatever number of bindings match, so this one decides nothing."),
    ("BT102", "duplicate binding", "warning",
     "Two bindings from the same exchange to the same destination accept exactly the same messages although "
     "their keys or arguments are written differently."),
    ("BT103", "wildcard on a direct exchange", "warning",
     "A direct exchange compares keys byte for byte: * and # in its binding keys are ordinary characters."),
    ("BT104", "wildcard inside a word", "warning",
     "On a topic exchange only a whole word can be a wildcard: in a#b, ** or order-* the sign is a literal."),
    ("BT105", "ignored routing key", "info",
     "Fanout and headers exchanges never look at the binding key."),
    ("BT106", "ignored arguments", "warning",
     "Only a headers exchange reads x-match and header criteria; on the other types they have no effect."),
    ("BT107", "replacement key without effect", "info",
     "x-replacement-routing-key is handed on to a destination exchange; a queue never sees it."),
    ("BT111", "headers binding that matches everything", "warning",
     "No argument is left to compare, and 'all of nothing' is true for every message."),
    ("BT112", "headers binding that matches nothing", "error",
     "No argument is left to compare, and 'any of nothing' is true for no message."),
    ("BT113", "skipped header criterion", "warning",
     "With x-match all or any, arguments whose name begins with x- are no criteria; all-with-x and any-with-x "
     "compare them."),
    ("BT120", "queue without a binding", "info",
     "Nothing leads to the queue but the default exchange, by publishing with its name as the key."),
    ("BT121", "unreachable queue", "warning",
     "Bindings lead to the queue, and none of them can ever deliver a message."),
    ("BT122", "unreachable exchange", "warning",
     "Nobody may publish to an internal exchange, and no binding, divert or alternate leads to this one."),
    ("BT123", "exchange without destinations", "info",
     "No binding, divert or alternate leaves the exchange: whatever is published to it is unroutable."),
    ("BT130", "cycle of bindings", "warning",
     "Exchange-to-exchange bindings come back to where they began. Each exchange is visited once per message "
     "and set of keys, so routing ends, but the last binding of the circle adds nothing."),
    ("BT131", "cycle of alternates", "warning",
     "Alternates come back to where they began: a message that nobody wants is still unroutable at the end."),
    ("BT132", "cycle of diverts", "warning",
     "A divert leads back to its own source. The second visit with the same keys is cut."),
    ("BT133", "missing alternate", "error",
     "The alternate does not exist: messages that need it become unroutable with reason alternate_missing."),
    ("BT134", "ambiguous alternate", "info",
     "A queue and an exchange share the name in alternate-binding; the exchange is taken."),
    ("BT135", "alternate that is never used", "info",
     "Every message meets a binding of the exchange, so its alternate-exchange gets nothing."),
    ("BT140", "exclusive divert that starves", "warning",
     "The divert takes every message of its source; bindings and non-exclusive diverts there never apply."),
    ("BT141", "divert that never fires", "warning",
     "No message can meet the divert."),
    ("BT142", "divert into nothing", "error",
     "The exclusive divert takes messages away from their bindings, to an exchange that leads to no queue."),
    ("BT150", "overlapping queues", "info",
     "Nearly every recent message of one queue is in the other as well."),
    ("BT151", "queues with the same messages", "info",
     "Recently two queues received the same messages: one of them may be superfluous."),
    ("BT160", "look-alike names", "warning",
     "Two names differ in case, blanks, invisible characters or letters that look the same, and names compare "
     "byte for byte."),
    ("BT161", "blank or invisible characters in a name", "warning",
     "A name or key begins or ends with a blank, or holds a character that nobody sees."),
    ("BT170", "filter that is never true", "error",
     "No message passes the filter."),
    ("BT171", "filter that is always true", "info",
     "Every message passes the filter: it says nothing."),
    ("BT172", "filter that contradicts its binding", "error",
     "The filter can only be true for messages that the header criteria of the same binding exclude."),
    ("BT173", "binding filter that contradicts the queue filter", "error",
     "No message passes the filter of the binding and the filter of the queue behind it."),
    ("BT174", "remark on a filter", "warning",
     "The filter can be honoured, but hardly says what was meant."),
    ("BT180", "arguments without effect", "warning",
     "Arguments that brokers know, and any others, are accepted and kept; these do nothing here."),
    ("BT181", "settings without effect", "warning",
     "Policies, parameters, limits and properties of a vhost are accepted and kept whatever they say; these do "
     "nothing here."),
    ("BT199", "analysis was cut short", "info",
     "The topology needs more comparisons than the analysis allows itself; what was compared is reported."),
)  # fmt: skip

#: Every code, in the order of the documentation.
RULES: Final = {row[0]: register(Rule(*row, DOCUMENT)) for row in _TABLE}
