"""Kernels of the walk through a topology. Loaded by `bindery.router.native.kernels`."""

# mypy: allow-untyped-defs, allow-untyped-calls
# (numba infers the types of kernels from the arrays that it is given)

from __future__ import annotations

import numpy as np

from bindery.router.native import kernel


@kernel
def expand(states, classes, class_offsets, class_rules, rule_first, rule_plain, rule_gated, rule_gate, rule_group):
    """From rules to bindings: (state, binding, open) of those without filter, (state, filter group) of the others.

    `states[i]` met the rules of class `classes[i]`. The bindings of a rule that have no filter stand at
    `rule_first[rule]` and after, `rule_plain[rule]` of them. The last `rule_gated[rule]` of these lead to queues whose
    filters are the group `rule_gate[rule]`: they are not open yet, and (state, gate, where the first of them stands
    among the pairs) says who is to be asked. `rule_group[rule]` is the filter group of the other bindings, or -1.
    """
    plain_of = np.zeros(len(class_offsets) - 1, np.int64)
    gates_of = np.zeros(len(class_offsets) - 1, np.int64)
    groups_of = np.zeros(len(class_offsets) - 1, np.int64)
    for number in range(len(class_offsets) - 1):
        for place in range(class_offsets[number], class_offsets[number + 1]):
            rule = class_rules[place]
            plain_of[number] += rule_plain[rule]
            if rule_gated[rule]:
                gates_of[number] += 1
            if rule_group[rule] >= 0:
                groups_of[number] += 1
    plain_total = 0
    gate_total = 0
    group_total = 0
    for entry in range(len(states)):
        plain_total += plain_of[classes[entry]]
        gate_total += gates_of[classes[entry]]
        group_total += groups_of[classes[entry]]
    pair_state = np.empty(plain_total, np.int32)
    pair_binding = np.empty(plain_total, np.int32)
    pair_open = np.ones(plain_total, np.bool_)
    gate_state = np.empty(gate_total, np.int32)
    gate = np.empty(gate_total, np.int32)
    gate_place = np.empty(gate_total, np.int64)
    group_state = np.empty(group_total, np.int32)
    group = np.empty(group_total, np.int32)
    plain_filled = 0
    gate_filled = 0
    group_filled = 0
    for entry in range(len(states)):
        for place in range(class_offsets[classes[entry]], class_offsets[classes[entry] + 1]):
            rule = class_rules[place]
            for step in range(rule_plain[rule]):
                pair_state[plain_filled] = states[entry]
                pair_binding[plain_filled] = rule_first[rule] + step
                plain_filled += 1
            if rule_gated[rule]:
                gate_state[gate_filled] = states[entry]
                gate[gate_filled] = rule_gate[rule]
                gate_place[gate_filled] = plain_filled - rule_gated[rule]
                for place_of_pair in range(gate_place[gate_filled], plain_filled):
                    pair_open[place_of_pair] = False
                gate_filled += 1
            if rule_group[rule] >= 0:
                group_state[group_filled] = states[entry]
                group[group_filled] = rule_group[rule]
                group_filled += 1
    return pair_state, pair_binding, pair_open, gate_state, gate, gate_place, group_state, group


@kernel
def gather(pair_row, pair_binding, pair_open, rows, binding_id, binding_queue, queues):
    """Collect what each message matched, and its queues.

    `pair_open[i]` says whether the queue behind a pair takes the message. Gives, per message in order:
    (lineage offsets, sorted distinct lineage ids, queue offsets, distinct queues, copies per queue,
    hits per binding: messages that it matched).
    """
    pairs = len(pair_row)
    starts = np.zeros(rows + 1, np.int64)
    for pair in range(pairs):
        starts[pair_row[pair] + 1] += 1
    for row in range(rows):
        starts[row + 1] += starts[row]
    place = starts[:-1].copy()
    order = np.empty(pairs, np.int32)
    for pair in range(pairs):
        row = pair_row[pair]
        order[place[row]] = pair
        place[row] += 1
    lineage_offsets = np.zeros(rows + 1, np.int32)
    lineage = np.empty(pairs, np.int32)
    queue_offsets = np.zeros(rows + 1, np.int64)
    row_queues = np.empty(pairs, np.int32)
    copies = np.zeros(queues, np.int64)
    queue_seen = np.full(queues, -1, np.int32)
    hits = np.zeros(len(binding_id), np.int64)
    binding_seen = np.full(len(binding_id), -1, np.int32)
    lineage_filled = 0
    queue_filled = 0
    for row in range(rows):
        first = lineage_filled
        for entry in range(starts[row], starts[row + 1]):
            pair = order[entry]
            binding = pair_binding[pair]
            queue = binding_queue[binding]
            if queue >= 0 and pair_open[pair] and queue_seen[queue] != row:
                queue_seen[queue] = row
                row_queues[queue_filled] = queue
                queue_filled += 1
                copies[queue] += 1
            if binding_id[binding] < 0 or binding_seen[binding] == row:
                continue
            binding_seen[binding] = row
            hits[binding] += 1
            number = binding_id[binding]
            if lineage_filled - first > 64:
                lineage[lineage_filled] = number  # long lists are sorted at the end
                lineage_filled += 1
                continue
            position = lineage_filled
            while position > first and lineage[position - 1] > number:
                lineage[position] = lineage[position - 1]
                position -= 1
            lineage[position] = number
            lineage_filled += 1
        for entry in range(first + 65, lineage_filled):
            if lineage[entry - 1] > lineage[entry]:  # those of one rule are in order already
                lineage[first:lineage_filled] = np.sort(lineage[first:lineage_filled])
                break
        kept = first
        for entry in range(first, lineage_filled):
            if kept == first or lineage[kept - 1] != lineage[entry]:
                lineage[kept] = lineage[entry]
                kept += 1
        lineage_filled = kept
        lineage_offsets[row + 1] = lineage_filled
        queue_offsets[row + 1] = queue_filled
    return lineage_offsets, lineage[:lineage_filled].copy(), queue_offsets, row_queues[:queue_filled], copies, hits


@kernel
def by_queue(queue_offsets, row_queues, offsets):
    """The rows of each queue, ascending; queue q's rows start at `offsets[q]`."""
    place = offsets.copy()
    rows = np.empty(len(row_queues), np.int32)
    for row in range(len(queue_offsets) - 1):
        for entry in range(queue_offsets[row], queue_offsets[row + 1]):
            queue = row_queues[entry]
            rows[place[queue]] = row
            place[queue] += 1
    return rows


@kernel
def components(offsets, followers):
    """Strongly connected components of a graph in CSR form (Tarjan, without recursion).

    Components are numbered so that every edge between two of them leads to the lower number.
    """
    nodes = len(offsets) - 1
    component = np.full(nodes, -1, np.int32)
    index = np.full(nodes, -1, np.int32)
    low = np.zeros(nodes, np.int32)
    cursor = offsets[:-1].copy()
    stack = np.empty(nodes, np.int32)
    path = np.empty(nodes, np.int32)
    stacked = 0
    visited = 0
    found = 0
    for root in range(nodes):
        if index[root] >= 0:
            continue
        path[0] = root
        depth = 1
        index[root] = low[root] = visited
        visited += 1
        stack[stacked] = root
        stacked += 1
        while depth > 0:
            node = path[depth - 1]
            if cursor[node] < offsets[node + 1]:
                follower = followers[cursor[node]]
                cursor[node] += 1
                if index[follower] < 0:
                    index[follower] = low[follower] = visited
                    visited += 1
                    stack[stacked] = follower
                    stacked += 1
                    path[depth] = follower
                    depth += 1
                elif component[follower] < 0:
                    low[node] = min(low[node], index[follower])
                continue
            depth -= 1
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[node])
            if low[node] == index[node]:
                while True:
                    stacked -= 1
                    member = stack[stacked]
                    component[member] = found
                    if member == node:
                        break
                found += 1
    return component, found
