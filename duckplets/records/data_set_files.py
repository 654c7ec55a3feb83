"""Files that list data sets: YAML or TOML, read into plain tables."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckplets.errors import SourceError

if TYPE_CHECKING:
    import yaml


def tables_of(file: Path) -> dict[Any, Any]:
    """Return the tables of a file by name: TOML if it ends in ``.toml``, else YAML (or JSON).

    Raises:
        SourceError: It is missing or unreadable, or no such file, or lists nothing.
    """
    is_toml = file.suffix.lower() == ".toml"
    try:
        text = file.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text) if is_toml else _yaml(text)
    except FileNotFoundError as error:
        raise SourceError(f"{file} does not exist") from error
    except OSError as error:
        raise SourceError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{file} is not UTF-8: byte {error.start}") from error
    except RecursionError as error:
        raise SourceError(f"{file} is nested too deeply") from error
    except ValueError as error:
        raise SourceError(f"{file} is not {'TOML' if is_toml else 'YAML'}: {error}") from error
    if not isinstance(content, dict) or not content:
        raise SourceError(
            f"{file} lists no data sets; write the name of each, and below it its keys, such as "
            f"file_name"
        )
    return content


def _yaml(text: str) -> Any:
    """Parse YAML, in which no key may come twice.

    Raises:
        ValueError: It is none.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses what the plain one passes over: a key that takes the place of another."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    raise ValueError(f"line {key.start_mark.line + 1}: {key.value!r} comes twice")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader it is
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
