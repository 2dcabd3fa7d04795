"""A preprocessor of mdBook: links that leave docs/ lead to the repository, and diagrams are drawn
by the bundle of mermaid that is named in MERMAID, a path in the book; without it they stay code."""

import html
import json
import os
import posixpath
import re
import sys

REPOSITORY = "https://github.com/lockkeeper/lockkeeper/blob/main/"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^(\s*)```")
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "supports":
        return
    _, book = json.load(sys.stdin)
    for section in book["sections"]:
        change(section)
    json.dump(book, sys.stdout)


def change(section):
    chapter = section.get("Chapter") if isinstance(section, dict) else None
    if chapter:
        path = chapter["path"]
        chapter["content"] = draw(path, lead_out(path, chapter["content"]))
        for item in chapter["sub_items"]:
            change(item)


def lead_out(path, text):
    """The text with links that are as good in the book as in the repository."""
    in_code, lines = False, []
    for line in text.split("\n"):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            line = LINK.sub(lambda it: it[1] + target(path, it[2]) + it[3], line)
        lines.append(line)
    return "\n".join(lines)


def target(path, link):
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    file = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), link))
    return link if file.startswith("docs/") else REPOSITORY + file


def draw(path, text):
    bundle = os.environ.get("MERMAID")
    if not bundle or not DIAGRAM.search(text):
        return text
    text = DIAGRAM.sub(lambda it: f'<pre class="mermaid">{html.escape(it[1])}</pre>', text)
    root = "../" * path.count("/")
    start = "mermaid.initialize({ startOnLoad: true })"
    return f'{text}\n\n<script src="{root}{bundle}"></script>\n<script>{start}</script>\n'


if __name__ == "__main__":
    main()
