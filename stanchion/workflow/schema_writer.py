"""Writes the JSON schema of what a type reads, and marks where the type's own code may make something else of a value.

At such a place the schema describes what comes out of that code, so that what goes in can't be held against it: `misfit`
leaves it to the step.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from stanchion.workflow.schema_check import CONVERTS

__all__ = ["SchemaWriter"]

_OF_TEXTS: Final = ("strip_whitespace", "to_lower", "to_upper")
_OF_MODELS: Final = ("populate_by_name", "validate_by_name", "str_strip_whitespace", "str_to_lower", "str_to_upper")


def _marked(schema: JsonSchemaValue, converts: object) -> JsonSchemaValue:
    return {**schema, CONVERTS: True} if converts else schema


class SchemaWriter(GenerateJsonSchema):
    """pydantic's own, with the marks."""

    def function_before_schema(self, schema: Any) -> JsonSchemaValue:
        """A validator that sees the value first."""
        return _marked(super().function_before_schema(schema), converts=True)

    def function_wrap_schema(self, schema: Any) -> JsonSchemaValue:
        """A validator around the type's own."""
        return _marked(super().function_wrap_schema(schema), converts=True)

    def function_plain_schema(self, schema: Any) -> JsonSchemaValue:
        """A validator in place of the type's own."""
        return _marked(super().function_plain_schema(schema), converts=True)

    def str_schema(self, schema: Any) -> JsonSchemaValue:
        """A text that is stripped or changes its case before its length is looked at."""
        return _marked(super().str_schema(schema), any(schema.get(key) for key in _OF_TEXTS))

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """An enum that finds members for values which none has."""
        return _marked(super().enum_schema(schema), schema["cls"]._missing_.__func__ is not Enum._missing_.__func__)  # type: ignore[attr-defined]  # a class method

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model whose fields are read under several names, or whose texts are changed first."""
        return _marked(super().model_schema(schema), _is_lenient(schema))

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """The same of a dataclass."""
        return _marked(super().dataclass_schema(schema), _is_lenient(schema))

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """The same of a typed dict."""
        return _marked(super().typed_dict_schema(schema), _is_lenient(schema))


def _is_lenient(schema: Any) -> bool:
    config = schema.get("config") or {}
    inner = schema.get("schema", schema)
    while isinstance(inner, dict) and "fields" not in inner and "schema" in inner:
        inner = inner["schema"]
    fields = inner.get("fields", {})
    listed = fields.values() if isinstance(fields, dict) else fields
    names = [field.get("validation_alias") for field in listed]
    return any(config.get(key) for key in _OF_MODELS) or any(isinstance(name, list) for name in names)
