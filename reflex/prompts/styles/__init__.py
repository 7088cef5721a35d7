"""Prompt styles, one file each; every module's config dataclass is registered under the `prompt` group."""
