"""CloudEvents SQL 1.0 (cloudevents/spec, cesql/spec.md): what it adds to the shared syntax tree.

A filter passes when its value is true and nothing on the way was an error (§1.2). An error is unknown for a missing
attribute and trouble for everything else (casts, division by zero, overflow, functions), and ends the evaluation, as in
the specification's fail-fast mode. So AND, OR and XOR go from left to right (`InOrder`), where the selectors' do not.
"""
