"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Put the content at the path; whoever reads the path meanwhile sees the old file or the new one, never a part.

    The directory is made when it is missing. Text is written as UTF-8 with Unix line ends.

    Raises:
        OSError: when the directory can't be written; the old file is then untouched and nothing is left beside it.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(unfinished, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
