"""The docstrings below attributes, which Python itself does not keep: they are read from the source."""

import ast
import inspect
import sys
from functools import cache
from pathlib import Path


def attribute_docstrings(cls: type) -> dict[str, str]:
    """Returns the docstrings of the annotated attributes of a class and its bases, by the attribute's name.

    Classes inside functions and without a source file have none.
    """
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        module = sys.modules.get(each.__module__)
        if file := getattr(module, "__file__", None):
            found |= _in_file(file).get(each.__qualname__, {})
    return found


@cache
def _in_file(file: str) -> dict[str, dict[str, str]]:
    """Returns the docstrings of attributes by the qualified names of the file's classes."""
    tree = ast.parse(Path(file).read_bytes())
    found: dict[str, dict[str, str]] = {}
    todo = [("", each) for each in tree.body if isinstance(each, ast.ClassDef)]
    while todo:
        outside, node = todo.pop()
        name = f"{outside}{node.name}"
        todo += [(f"{name}.", each) for each in node.body if isinstance(each, ast.ClassDef)]
        found[name] = {
            attribute.target.id: inspect.cleandoc(text.value.value)
            for attribute, text in zip(node.body, node.body[1:], strict=False)
            if isinstance(attribute, ast.AnnAssign)
            and isinstance(attribute.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
    return found
