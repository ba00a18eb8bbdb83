"""A preprocessor of mdBook: makes whole addresses of the links that leave the guide.

The environment variable ECRU_REPOSITORY is the address under which the repository's files are shown,
such as `https://example.org/ecru/blob/main`. Without it, the links lead to the files of this clone.
"""

import json
import os
import re
import sys
from pathlib import Path

if sys.argv[1:2] == ["supports"]:
    sys.exit(0)

here = Path(__file__).resolve().parent
repository = os.environ.get("ECRU_REPOSITORY", here.parent.parent.as_uri()).rstrip("/")


def whole(link):
    """The target of a link, from the folder `src`, as a whole address if it leaves that folder."""
    path = os.path.normpath(Path("doc/guide/src") / link[1])
    return f"]({repository}/{path}" if path.startswith("doc/guide/src/") is False else link[0]


def rewrite(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            chapter["content"] = re.sub(r"\]\((\.\./[^)#\s]+)", whole, chapter["content"])
            rewrite(chapter["sub_items"])


_, book = json.load(sys.stdin)
rewrite(book.get("items", book.get("sections", [])))
json.dump(book, sys.stdout)
