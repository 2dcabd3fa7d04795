"""Checks the links of a built book, and writes llms.txt beside it: one line for each page.

Takes the folder of the pages and that of the book."""

import html.parser
import re
import sys
import urllib.parse
from pathlib import Path

# Pages that mdBook makes and that lead nowhere by themselves.
GENERATED = ("print.html", "404.html", "toc.html")
ENTRY = re.compile(r"\s*- \[(.+)\]\((.+)\)")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        self.targets += [values[key] for key in ("href", "src") if values.get(key)]


def broken_links(book):
    pages = {path.resolve(): Page(path.read_text()) for path in book.rglob("*.html")}
    for path, page in pages.items():
        if path.name in GENERATED:
            continue
        for target in page.targets:
            link = urllib.parse.urlsplit(target)
            if link.scheme or link.netloc:
                continue
            file = (path.parent / urllib.parse.unquote(link.path)).resolve() if link.path else path
            fragment = urllib.parse.unquote(link.fragment)
            if not file.exists():
                yield f"{path.name}: nothing at {target}"
            elif fragment and file in pages and fragment not in pages[file].ids:
                yield f"{path.name}: no heading at {target}"


def entries(docs):
    found = map(ENTRY.match, (docs / "SUMMARY.md").read_text().split("\n"))
    return [(it[1], it[2]) for it in found if it]


def pages_left_out(docs):
    """A page that no reader of the book can find."""
    listed = {path for _, path in entries(docs)} | {"SUMMARY.md"}
    pages = (str(path.relative_to(docs)) for path in docs.rglob("*.md"))
    return [f"SUMMARY.md: {page} is missing" for page in sorted(set(pages) - listed)]


def first_sentence(text):
    """Of the first paragraph that is prose, and not the note of the generated pages."""
    for paragraph in text.split("\n\n"):
        if paragraph[:1].isalpha() and not paragraph.startswith("From the comments"):
            prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=[.:])\s", prose)[0]
    return ""


def summary(docs):
    yield "# Lockkeeper\n"
    yield "> A lock service on Redis: locks, semaphores and latches in any language.\n"
    for title, path in entries(docs):
        about = first_sentence((docs / path).read_text())
        yield f"- [{title}]({path.removesuffix('.md')}.html): {about}"


def main(docs, book):
    problems = [*pages_left_out(docs), *broken_links(book)]
    if problems:
        sys.exit("\n".join(problems))
    (book / "llms.txt").write_text("\n".join(summary(docs)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
