"""What MkDocs calls while it builds the site: pages that are not files under docs/.

Reference pages come from the code. README, CHANGELOG, CONTRIBUTING and the benchmarks stay where
people look for them in a checkout, and are pages here too.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from manual.reference import command_names, pages

ROOT = Path(__file__).parent.parent
# Documents outside of docs/, and the pages that they become.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "performance.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:]*)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of commands into the navigation, and leave out what is not written yet."""
    config.nav = [_expanded(item) for item in config.nav or [] if item is not None]
    return config


def _expanded(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    ((title, target),) = item.items()
    if isinstance(target, list):
        return {title: [_expanded(one) for one in target]}
    if target == "reference/commands":
        named = [{name: f"reference/commands/{name}.md"} for name in command_names()]
        return {title: ["reference/commands/index.md", *named]}
    return item


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    for source, page in ELSEWHERE.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, page, content=moved(text, source)))
    for page, text in pages(ROOT / "docs").items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from docs/ to other parts of the checkout become names: the site has only docs/."""
    source = f"docs/{page.file.src_uri}"
    if page.file.generated_by is not None:
        return markdown
    return LINK.sub(lambda found: _in_site(found, source, page.file.src_uri), markdown)


def moved(text: str, source: str) -> str:
    """A document from outside of docs/, with its links as they must be in the site."""
    return LINK.sub(lambda found: _in_site(found, source, ELSEWHERE[source]), text)


def _in_site(found: re.Match[str], source: str, page: str) -> str:
    image, words, target, anchor = found[1], found[2], found[3], found[4] or ""
    if not target:
        return found[0]
    path = (ROOT / source).parent.joinpath(target).resolve().relative_to(ROOT).as_posix()
    if path in ELSEWHERE:
        to = ELSEWHERE[path]
    elif path.startswith("docs/"):
        to = path.removeprefix("docs/")
    else:
        return words if words.startswith("`") else f"{words} (`{path}`)" if words != path else words
    if to == "captures":  # a folder, which is one page
        to = "reference/captures.md"
    up = "../" * page.count("/")
    return f"{image}[{words}]({up}{to}{anchor})"
