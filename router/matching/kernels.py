"""Kernels of the exchange matchers. Texts are UTF-8 bytes with offsets; hash tables are flat arrays.

Tables use open addressing with a power-of-two number of slots, at most half full; -1 marks a free slot.
Loaded by `bindery.router.native.kernels`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# (numba infers the types of kernels from the arrays that it is given)

from __future__ import annotations

import numpy as np

from bindery.router.native import kernel

_DOT = 46
#: Start and factor of FNV-1a, and the golden ratio that mixes bits, all for 64 bits.
_HASH_START = 0xCBF29CE484222325
_HASH_FACTOR = 0x100000001B3
_MIX_FACTOR = 0x9E3779B97F4A7C15


@kernel
def mix(value):
    """Spread a 64-bit hash over its low bits."""
    value ^= value >> np.uint64(32)
    value *= np.uint64(_MIX_FACTOR)
    return value ^ (value >> np.uint64(29))


@kernel
def hash_bytes(data, start, end):
    """A 64-bit hash of data[start:end] (FNV-1a with a final mix)."""
    value = np.uint64(_HASH_START)
    for position in range(start, end):
        value = (value ^ np.uint64(data[position])) * np.uint64(_HASH_FACTOR)
    return mix(value)


@kernel
def hash_number(value):
    """A 64-bit hash of one unsigned integer (the finaliser of splitmix64)."""
    mixed = value + np.uint64(_MIX_FACTOR)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@kernel
def find_text(table_data, table_offsets, slots, data, start, end):
    """The position of data[start:end] in a table of texts, or -1."""
    mask = np.uint64(len(slots) - 1)
    length = end - start
    slot = hash_bytes(data, start, end) & mask
    while True:
        entry = slots[slot]
        if entry < 0:
            return -1
        first = table_offsets[entry]
        if table_offsets[entry + 1] - first == length:
            same = True
            for step in range(length):
                if table_data[first + step] != data[start + step]:
                    same = False
                    break
            if same:
                return entry
        slot = (slot + np.uint64(1)) & mask


@kernel
def build_texts(data, offsets, slots):
    """Enter distinct texts into the slots of a table."""
    mask = np.uint64(len(slots) - 1)
    for entry in range(len(offsets) - 1):
        slot = hash_bytes(data, offsets[entry], offsets[entry + 1]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = entry


@kernel
def find_texts(table_data, table_offsets, slots, data, offsets, which):
    """For each text number in `which` its position in the table, or -1."""
    found = np.empty(len(which), np.int32)
    for place in range(len(which)):
        text = which[place]
        found[place] = find_text(table_data, table_offsets, slots, data, offsets[text], offsets[text + 1])
    return found


@kernel
def find_pair(keys, values, key):
    """The value under an integer key of a table, or -1."""
    mask = np.uint64(len(keys) - 1)
    slot = hash_number(np.uint64(key)) & mask
    while True:
        present = keys[slot]
        if present == key:
            return values[slot]
        if present < 0:
            return -1
        slot = (slot + np.uint64(1)) & mask


@kernel
def find_pairs(keys, values, wanted):
    """The value under each integer key of a table, or -1."""
    found = np.empty(len(wanted), np.int32)
    for place in range(len(wanted)):
        found[place] = find_pair(keys, values, wanted[place])
    return found


@kernel
def build_pairs(new_keys, new_values, keys, values):
    """Enter distinct non-negative integer keys into a table."""
    mask = np.uint64(len(keys) - 1)
    for entry in range(len(new_keys)):
        slot = hash_number(np.uint64(new_keys[entry])) & mask
        while keys[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        keys[slot] = new_keys[entry]
        values[slot] = new_values[entry]


@kernel
def compact(values, size):
    """Number the distinct values (all below `size`) by first occurrence: (number per place, the values)."""
    number = np.full(size, -1, np.int32)
    places = np.empty(len(values), np.int32)
    distinct = np.empty(min(size, len(values)), np.int64)
    count = 0
    for place in range(len(values)):
        value = values[place]
        if number[value] < 0:
            number[value] = count
            distinct[count] = value
            count += 1
        places[place] = number[value]
    return places, distinct[:count].copy()


@kernel
def unite(set_offsets, set_members, sets, member_class, class_offsets, class_rules, rule_count, rule_base):
    """For sets of keys the union of the rules of their members: (offsets, rules), each rule once a set.

    `member_class` gives the class of a key (by key number), whose rules stand in the class lists.
    """
    seen = np.full(rule_count, -1, np.int64)
    offsets = np.zeros(len(sets) + 1, np.int64)
    total = 0
    for place in range(len(sets)):
        for entry in range(set_offsets[sets[place]], set_offsets[sets[place] + 1]):
            group = member_class[set_members[entry]]
            total += class_offsets[group + 1] - class_offsets[group]
    rules = np.empty(total, np.int32)
    filled = 0
    for place in range(len(sets)):
        for entry in range(set_offsets[sets[place]], set_offsets[sets[place] + 1]):
            group = member_class[set_members[entry]]
            for position in range(class_offsets[group], class_offsets[group + 1]):
                rule = class_rules[position]
                if seen[rule - rule_base] != place:
                    seen[rule - rule_base] = place
                    rules[filled] = rule
                    filled += 1
        offsets[place + 1] = filled
    return offsets, rules[:filled].copy()


# -- topic ----------------------------------------------------------------------------------------------


@kernel
def split_symbols(data, offsets, which, word_data, word_offsets, word_slots):
    """The words of each key as symbols: (first symbol per key, symbols); -1 = a word of no pattern.

    The empty key has no words; every other key has one more than it has dots. Hashing and lookup are those
    of `find_text`, written out so that each byte is read once.
    """
    starts = np.zeros(len(which) + 1, np.int64)
    for place in range(len(which)):
        start, end = offsets[which[place]], offsets[which[place] + 1]
        words = 0
        if end > start:
            words = 1
            for position in range(start, end):
                words += data[position] == _DOT
        starts[place + 1] = starts[place] + words
    symbols = np.empty(starts[-1], np.int32)
    mask = np.uint64(len(word_slots) - 1)
    filled = 0
    for place in range(len(which)):
        start, end = offsets[which[place]], offsets[which[place] + 1]
        if end == start:
            continue
        first = start
        value = np.uint64(_HASH_START)
        for position in range(start, end + 1):
            if position < end and data[position] != _DOT:
                value = (value ^ np.uint64(data[position])) * np.uint64(_HASH_FACTOR)
                continue
            length = position - first
            slot = mix(value) & mask
            symbol = -1
            while word_slots[slot] >= 0:
                word = word_slots[slot]
                known = word_offsets[word]
                if word_offsets[word + 1] - known == length:
                    same = True
                    for step in range(length):
                        if word_data[known + step] != data[first + step]:
                            same = False
                            break
                    if same:
                        symbol = word
                        break
                slot = (slot + np.uint64(1)) & mask
            symbols[filled] = symbol
            filled += 1
            first = position + 1
            value = np.uint64(_HASH_START)
    return starts, symbols


@kernel
def collapse(starts, symbols):
    """Number equal symbol sequences alike: (class per key, a key of each class)."""
    keys = len(starts) - 1
    size = 2
    while size < 2 * keys:
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, np.int32)
    classes = np.empty(keys, np.int32)
    samples = np.empty(keys, np.int64)
    count = 0
    for key in range(keys):
        start, length = starts[key], starts[key + 1] - starts[key]
        value = np.uint64(length)
        for step in range(length):
            value = hash_number((value ^ np.uint64(symbols[start + step] + 1)) * np.uint64(_HASH_FACTOR))
        slot = hash_number(value) & mask
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = count
                samples[count] = key
                classes[key] = count
                count += 1
                break
            first = starts[samples[known]]
            if starts[samples[known] + 1] - first == length:
                same = True
                for step in range(length):
                    if symbols[first + step] != symbols[start + step]:
                        same = False
                        break
                if same:
                    classes[key] = known
                    break
            slot = (slot + np.uint64(1)) & mask
    return classes, samples[:count].copy()


@kernel
def walk_trie(starts, symbols, samples, edge_keys, edge_nodes, star, many, loops, rule, symbol_count):
    """The rules whose pattern accepts each sampled key: (offsets, rules, nodes visited).

    The trie is read as an automaton: the set of nodes reached by the words so far advances word by
    word, each node in it once, so any number of `#` costs at most words x nodes.
    """
    nodes = len(star)
    stamp = np.full(nodes, -1, np.int64)
    current = np.empty(nodes, np.int32)
    following = np.empty(nodes, np.int32)
    offsets = np.zeros(len(samples) + 1, np.int64)
    rules = np.empty(max(16, 4 * len(samples)), np.int32)
    filled = 0
    visits = 0
    step = 0
    for place in range(len(samples)):
        key = samples[place]
        step += 1
        current[0] = 0
        size = 1
        if many[0] >= 0:
            current[1] = many[0]
            size = 2
        for position in range(starts[key], starts[key + 1]):
            symbol = symbols[position]
            step += 1
            count = 0
            visits += size
            for entry in range(size):
                node = current[entry]
                for way in range(3):
                    if way == 0:
                        target = node if loops[node] else -1
                    elif way == 1:
                        target = star[node]
                    elif symbol >= 0:
                        target = find_pair(edge_keys, edge_nodes, np.int64(node) * symbol_count + symbol)
                    else:
                        target = -1
                    if target >= 0 and stamp[target] != step:
                        stamp[target] = step
                        following[count] = target
                        count += 1
                        free = many[target]
                        if free >= 0 and stamp[free] != step:
                            stamp[free] = step
                            following[count] = free
                            count += 1
            current, following = following, current
            size = count
            if size == 0:
                break
        if filled + size > len(rules):
            larger = np.empty(2 * (filled + size), np.int32)
            larger[:filled] = rules[:filled]
            rules = larger
        for entry in range(size):
            accepted = rule[current[entry]]
            if accepted >= 0:
                rules[filled] = accepted
                filled += 1
        offsets[place + 1] = filled
    return offsets, rules[:filled].copy(), visits


# -- headers --------------------------------------------------------------------------------------------


@kernel
def match_headers(
    entry_offsets,
    entry_names,
    entry_atoms,
    name_count,
    atom_count,
    value_keys,
    value_postings,
    name_postings,
    group_offsets,
    groups,
    any_offsets,
    anys,
    field_offsets,
    field_names,
    void_offsets,
    void_names,
    rule_slots,
    rule_groups,
    rule_offsets,
    rule_atoms,
    rule_numbers,
    rule_base,
    rule_count,
    always,
):
    """The rules whose criteria each message meets: (offsets, rules, postings and rules touched).

    A message is its entries: name numbers with the number of their typed value (-1: in no criterion).
    Each (name, value) and each name alone has a posting: the groups of `all` rules to probe, and the
    `any` rules that it satisfies. A group holds the `all` rules over the same names; the values of the
    message under these names are the key of one hash probe among all its rules.
    """
    messages = len(entry_offsets) - 1
    held = np.full(name_count, -1, np.int64)
    atom = np.empty(name_count, np.int32)
    source = np.empty(name_count, np.int64)
    seen = np.full(rule_count, -1, np.int64)
    mask = np.uint64(len(rule_slots) - 1)
    offsets = np.zeros(messages + 1, np.int64)
    rules = np.empty(max(16, 4 * messages), np.int32)
    filled = 0
    touched = 0
    for message in range(messages):
        first, last = entry_offsets[message], entry_offsets[message + 1]
        for entry in range(first, last):
            held[entry_names[entry]] = message
            atom[entry_names[entry]] = entry_atoms[entry]
            source[entry_names[entry]] = entry
        if filled + len(always) > len(rules):
            larger = np.empty(2 * (filled + len(always)), np.int32)
            larger[:filled] = rules[:filled]
            rules = larger
        for rule in always:
            rules[filled] = rule
            filled += 1
        for entry in range(first, last):
            name = entry_names[entry]
            if source[name] != entry:
                continue  # a repeated key: the last entry counts
            for kind in range(2):
                if kind == 0:
                    posting = name_postings[name]
                elif entry_atoms[entry] >= 0:
                    posting = find_pair(value_keys, value_postings, np.int64(name) * atom_count + entry_atoms[entry])
                else:
                    posting = -1
                if posting < 0:
                    continue
                room = any_offsets[posting + 1] - any_offsets[posting]
                room += group_offsets[posting + 1] - group_offsets[posting]
                touched += 1 + room
                if filled + room > len(rules):
                    larger = np.empty(2 * (filled + room), np.int32)
                    larger[:filled] = rules[:filled]
                    rules = larger
                for place in range(any_offsets[posting], any_offsets[posting + 1]):
                    rule = anys[place]
                    if seen[rule - rule_base] != message:
                        seen[rule - rule_base] = message
                        rules[filled] = rule
                        filled += 1
                for place in range(group_offsets[posting], group_offsets[posting + 1]):
                    group = groups[place]
                    complete = True
                    for position in range(void_offsets[group], void_offsets[group + 1]):
                        if held[void_names[position]] != message:
                            complete = False
                            break
                    if not complete:
                        continue
                    start, end = field_offsets[group], field_offsets[group + 1]
                    value = np.uint64(group)
                    for position in range(start, end):
                        if held[field_names[position]] != message or atom[field_names[position]] < 0:
                            complete = False
                            break
                        value = hash_number((value ^ np.uint64(atom[field_names[position]])) * np.uint64(_HASH_FACTOR))
                    if not complete:
                        continue
                    slot = hash_number(value) & mask
                    while rule_slots[slot] >= 0:
                        candidate = rule_slots[slot]
                        if rule_groups[candidate] == group:
                            same = True
                            base = rule_offsets[candidate]
                            for position in range(start, end):
                                if rule_atoms[base + position - start] != atom[field_names[position]]:
                                    same = False
                                    break
                            if same:
                                rules[filled] = rule_numbers[candidate]
                                filled += 1
                                break
                        slot = (slot + np.uint64(1)) & mask
        offsets[message + 1] = filled
    return offsets, rules[:filled].copy(), touched


@kernel
def build_header_rules(rule_groups, rule_offsets, rule_atoms, rule_slots):
    """Enter `all` rules (group and values, distinct) into the slots that `match_headers` probes."""
    mask = np.uint64(len(rule_slots) - 1)
    for rule in range(len(rule_groups)):
        value = np.uint64(rule_groups[rule])
        for position in range(rule_offsets[rule], rule_offsets[rule + 1]):
            value = hash_number((value ^ np.uint64(rule_atoms[position])) * np.uint64(_HASH_FACTOR))
        slot = hash_number(value) & mask
        while rule_slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        rule_slots[slot] = rule


@kernel
def group_entries(owner, names, atoms, rows):
    """Entries sorted by the row that owns them: (offsets per row, names, atoms); order within a row is kept."""
    offsets = np.zeros(rows + 1, np.int64)
    for entry in range(len(owner)):
        offsets[owner[entry] + 1] += 1
    for row in range(rows):
        offsets[row + 1] += offsets[row]
    place = offsets[:-1].copy()
    sorted_names = np.empty(len(owner), np.int32)
    sorted_atoms = np.empty(len(owner), np.int32)
    for entry in range(len(owner)):
        position = place[owner[entry]]
        sorted_names[position] = names[entry]
        sorted_atoms[position] = atoms[entry]
        place[owner[entry]] = position + 1
    return offsets, sorted_names, sorted_atoms
