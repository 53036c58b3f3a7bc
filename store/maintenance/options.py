"""What users may say about maintenance, in a job file as in the settings of the service."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from bindery.router.errors import InvalidInput
from bindery.store.maintenance.policy import Policy, retention_of, size


class MaintenanceOptions(BaseModel):
    """How long old versions of tables are kept, and how large merged files get (docs/operations.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    retention: str | None = Field(default=None, description="how long old versions stay readable, such as '7 days'")
    target_size: str = Field(default="32 MiB", description="size that merged files get")

    @field_validator("retention", "target_size")
    @classmethod
    def _readable(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is not None:
            try:
                (retention_of if info.field_name == "retention" else size)(text)
            except InvalidInput as error:
                raise ValueError(f"{error.message}: {error.hint}") from None
        return text

    @property
    def policy(self) -> Policy:
        """What that means for maintenance."""
        kept = None if self.retention is None else retention_of(self.retention)
        return Policy(retention=kept, target_bytes=size(self.target_size))
