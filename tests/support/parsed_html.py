"""HTML for tests: a text that must be escaped, and a parser of tags and texts."""

from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script> & \"'</td>"


class Parsed(HTMLParser):
    """The tags, texts, links and event handlers of HTML; raises AssertionError for mismatched tags."""

    VOID = ("br", "img")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts, self.links = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src") or name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
