"""The rules of topology lint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bindery.router.lint import Rule, Severity, register

DOCUMENT: Final = "docs/topology-lint.md"


@dataclass(frozen=True, slots=True)
class TopologyRule(Rule):
    """A rule of topologies: what it finds, for example, and what is to be done; in Markdown, as on its page."""

    example: str | None
    remedy: str

    def page(self) -> list[str]:
        """What and why, an example where there is one, and what to do."""
        example = [] if self.example is None else [f"Example: {self.example}"]
        return [self.explanation, *example, f"What to do: {self.remedy}"]


#: Code, title, severity, explanation, example, remedy.
_TABLE: Final[tuple[tuple[str, str, Severity, str, str | None, str], ...]] = (
    ("BT101", "shadowed binding", "warning",
     "Another binding from the same exchange to the same destination accepts every message that this one accepts. "
     "One copy is made whatever number of bindings match, so this one decides nothing.",
     "`flight.#` and `flight.*.late` to one queue; `x = 1` and `x = 1 AND y = 2` under one key.",
     "Delete the binding that is named, or narrow the wider one. Copies do not change; the lineage of later rows "
     "no longer lists its id."),
    ("BT102", "duplicate binding", "warning",
     "Two bindings from the same exchange to the same destination accept exactly the same messages although their "
     "keys or arguments are written differently.",
     "`#.*` and `*.#` to one queue.",
     "Delete one of the two."),
    ("BT103", "wildcard on a direct exchange", "warning",
     "A direct exchange compares keys byte for byte: * and # in its binding keys are ordinary characters.",
     "key `flight.*` on a direct exchange.",
     "Use a topic exchange, or write the key out."),
    ("BT104", "wildcard inside a word", "warning",
     "On a topic exchange only a whole word can be a wildcard: in a#b, ** or order-* the sign is a literal.",
     "key `flight.LH*` on a topic exchange.",
     "Make the wildcard a word of its own: `order.*` instead of `order*`. If the sign is meant, nothing needs to "
     "change."),
    ("BT105", "ignored routing key", "info",
     "Fanout and headers exchanges never look at the binding key.",
     None,
     "Leave the key empty."),
    ("BT106", "ignored arguments", "warning",
     "Only a headers exchange reads x-match and header criteria; on the other types they have no effect.",
     None,
     "Bind through a headers exchange, or filter with `x-filters` or `x-filter-jms-selector`."),
    ("BT107", "replacement key without effect", "info",
     "x-replacement-routing-key is handed on to a destination exchange; a queue never sees it.",
     None,
     "Remove the argument; on a binding to an exchange it replaces all keys."),
    ("BT111", "headers binding that matches everything", "warning",
     "No argument is left to compare, and 'all of nothing' is true for every message.",
     '`{"x-match": "all"}`.',
     "Name the headers, or use a fanout exchange."),
    ("BT112", "headers binding that matches nothing", "error",
     "No argument is left to compare, and 'any of nothing' is true for no message.",
     '`{"x-match": "any"}`.',
     "Name at least one header, or delete the binding."),
    ("BT113", "skipped header criterion", "warning",
     "With x-match all or any, arguments whose name begins with x- are no criteria; all-with-x and any-with-x "
     "compare them.",
     '`{"x-match": "any", "x-device": "d1"}`.',
     "Use `all-with-x` or `any-with-x`, or rename the header."),
    ("BT114", "header named like a part of the body", "info",
     "Keys such as body.amount look into bodies where the exchange says what bodies are, with x-payload. This exchange "
     "does not, so the key names a header.",
     '`{"x-match": "all", "body.amount": 5}` on an exchange without `x-payload`.',
     "Declare the exchange with `x-payload`, or a predeclared one by a policy with `payload`. If a header is meant, "
     "nothing needs to change."),
    ("BT115", "weight that does not count", "warning",
     "A consistent hash exchange gives a destination buckets once, for the binding that came first. The keys of "
     "further bindings to it have no effect.",
     "`10` and then `20` to one queue on an exchange of type `x-consistent-hash`.",
     "Keep one binding to each destination. To change a weight, delete the binding and bind again: the destination "
     "then gets the last buckets."),
    ("BT120", "queue without a binding", "info",
     "Nothing leads to the queue but the default exchange, by publishing with its name as the key.",
     None,
     "Bind the queue, unless it is used by publishing to the default exchange."),
    ("BT121", "unreachable queue", "warning",
     "Bindings lead to the queue, and none of them can ever deliver a message.",
     None,
     "The message says why nothing arrives: mend the filter, the divert or the exchange that it names."),
    ("BT122", "unreachable exchange", "warning",
     "Nobody may publish to an internal exchange, and no binding, divert or alternate leads to this one.",
     None,
     "Bind something to the exchange, or declare it without `internal`."),
    ("BT123", "exchange without destinations", "info",
     "No binding, divert or alternate leaves the exchange: whatever is published to it is unroutable.",
     None,
     "Bind a queue, or set an alternate."),
    ("BT130", "cycle of bindings", "warning",
     "Exchange-to-exchange bindings come back to where they began. Each exchange is visited once per message and "
     "set of keys, so routing ends, but the last binding of the circle adds nothing.",
     None,
     "If the circle is not meant, remove the binding that closes it. With `x-replacement-routing-key` an exchange "
     "may be visited again, under the new key."),
    ("BT131", "cycle of alternates", "warning",
     "Alternates come back to where they began: a message that nobody wants is still unroutable at the end.",
     None,
     "Let the last alternate be a queue's exchange that takes everything."),
    ("BT132", "cycle of diverts", "warning",
     "A divert leads back to its own source. The second visit with the same keys is cut.",
     None,
     "Check the divert's destination."),
    ("BT133", "missing alternate", "error",
     "The alternate does not exist: messages that need it become unroutable with reason alternate_missing.",
     None,
     "Declare the alternate, or correct its name."),
    ("BT134", "ambiguous alternate", "info",
     "A queue and an exchange share the name in alternate-binding; the exchange is taken.",
     None,
     "Rename the queue or the exchange, so that a reader is not misled."),
    ("BT135", "alternate that is never used", "info",
     "Every message meets a binding of the exchange, so its alternate-exchange gets nothing.",
     None,
     "Remove the alternate, or narrow the binding that takes everything."),
    ("BT140", "exclusive divert that starves", "warning",
     "The divert takes every message of its source; bindings and non-exclusive diverts there never apply.",
     None,
     "Give the divert a filter, or make it non-exclusive."),
    ("BT141", "divert that never fires", "warning",
     "No message can meet the divert.",
     None,
     "Mend the filter, or delete the divert."),
    ("BT142", "divert into nothing", "error",
     "The exclusive divert takes messages away from their bindings, to an exchange that leads to no queue.",
     "a divert of `orders` to an exchange to which nobody has bound anything.",
     "Bind a queue behind the destination."),
    ("BT150", "overlapping queues", "info",
     "Nearly every recent message of one queue is in the other as well.",
     None,
     "Nothing, if both queues have readers of their own. Otherwise one queue with a consumer's filter may do."),
    ("BT151", "queues with the same messages", "info",
     "Recently two queues received the same messages: one of them may be superfluous.",
     None,
     "As for BT150."),
    ("BT160", "look-alike names", "warning",
     "Two names differ in case, blanks, invisible characters or letters that look the same, and names compare byte"
     " for byte.",
     "`orders` and `Orders`; `orders` with a Cyrillic o.",
     "Rename one of them."),
    ("BT161", "blank or invisible characters in a name", "warning",
     "A name or key begins or ends with a blank, or holds a character that nobody sees.",
     None,
     "Rename it; for a key, bind again without the blank."),
    ("BT170", "filter that is never true", "error",
     "No message passes the filter.",
     "`n > 5 AND n < 5`.",
     "Correct the filter. `bindery filter check` shows its parts."),
    ("BT171", "filter that is always true", "info",
     "Every message passes the filter: it says nothing.",
     None,
     "Remove the filter."),
    ("BT172", "filter that contradicts its binding", "error",
     "The filter can only be true for messages that the header criteria of the same binding exclude.",
     "`{\"carrier\": \"AA\"}` with the selector `carrier = 'UA'`.",
     "Correct the filter or the criteria."),
    ("BT173", "binding filter that contradicts the queue filter", "error",
     "No message passes the filter of the binding and the filter of the queue behind it.",
     None,
     "Correct one of the two filters."),
    ("BT174", "remark on a filter", "warning",
     "The filter can be honoured, but hardly says what was meant.",
     None,
     "See the rule of filter lint that the message names."),
    ("BT175", "property that no message has", "warning",
     "None of the recent messages that the filter is asked about has the property, and one has a name like it: the "
     "condition was unknown for all of them.",
     "`dep_dely > 15` where messages have `dep_delay`.",
     "Correct the name. If the property is new or rare, nothing needs to change."),
    ("BT180", "arguments without effect", "warning",
     "Arguments that brokers know, and any others, are accepted and kept; these do nothing here.",
     "a queue with `x-max-priority`; a queue with `x-queue-fliter`.",
     "See [arguments](arguments.md) for what each means. Correct a name that was misspelt; a declaration without "
     "the argument is another one, so clients that repeat it must leave it out, too."),
    ("BT181", "settings without effect", "warning",
     "Policies, parameters, limits and properties of a vhost are accepted and kept whatever they say; these do "
     "nothing here.",
     "a policy with `delivery-limit` or `ha-mode`; `alternate-exchange` in one that covers queues only; a shovel; the"
     " limit `max-connections`; a vhost whose `default_queue_type` is `quorum`.",
     "See [arguments](arguments.md#policy). Remove the key or parameter, or keep it for the broker that the "
     "document came from."),
    ("BT190", "outcome of a compatibility mode", "info",
     "A message goes elsewhere under the compatibility mode that was asked about. The message was routed in both "
     "readings; a link without such a finding may depend on the mode all the same.",
     "a headers binding with `\"level\": 5` under `rabbitmq-3`, and a message whose level is 5.0.",
     "State the mode as `compat` of the vhost, or write what means the same everywhere ([compatibility](compat.md))."),
    ("BT191", "filter that a compatibility mode refuses", "warning",
     "The broker of the mode does not have such a filter, so the vhost cannot have the mode.",
     "`NOT price > 5` under `artemis-2`, where NOT binds tighter than comparison.",
     "Write the parentheses that are meant: `NOT (price > 5)`."),
    ("BT199", "analysis was cut short", "info",
     "The topology needs more comparisons than the analysis allows itself; what was compared is reported.",
     None,
     "Judge one vhost at a time (`--vhost`)."),
)  # fmt: skip

#: Every code, in the order of the documentation.
RULES: Final = {row[0]: register(TopologyRule(*row[:4], DOCUMENT, *row[4:])) for row in _TABLE}
