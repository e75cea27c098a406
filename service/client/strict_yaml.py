"""YAML in which a value is what JSON would take it for, and in which a key is there once."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import ComposerError

_MERGE = "tag:yaml.org,2002:merge"


class Loader(yaml.SafeLoader):
    """YAML as JSON knows it: a date stays a text, and so does `1:30`, which YAML 1.1 takes for 90.
    A key that is there twice is refused; the last would win in silence."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        assert isinstance(node, yaml.MappingNode)
        # What `<<` brings comes later, and may be given anew.
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                raise ComposerError(None, None, f"the key {key.value!r} is there twice", key.start_mark)
            seen.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        # What a mapping says itself comes behind what it merged in. It wins for those, too, that merge
        # this one in; there the first would.
        last = {
            key.value if isinstance(key, yaml.ScalarNode) else key: (key, value) for key, value in node.value
        }
        node.value = list(last.values())


Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(0|[1-9][0-9]*)$"), list("-0123456789"))
