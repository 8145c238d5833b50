"""Files of text as people have them: what is translated, and what stays."""

import html
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents import translated

HTML = """<?xml version="kept"?><!DOCTYPE kept>
<html lang="kept"><head><title>Dogs &amp; cats &mdash; one page</title>
<meta name="description" content="About &quot;dogs&quot;"><meta name="kept" content="kept">
<script>var kept = "<p>kept &copy; kept</p>"; if (kept < b && c > d) { alert('kept'); }</script>
<?php echo "<b>kept</b>"; ?>
<style>p > a { kept: "kept"; }</style></head><body>
  <!-- kept <b>kept</b> -->
  <p>
    Costs &euro;20 or 20&nbsp;&euro; &copy; 2024 R&amp;D &hellip; don&rsquo;t &ldquo;quote&rdquo;
  </p>
  <p>Use &lt;b class="kept"&gt; or<br>5 &lt; 6 &#169; &#x2014; 😀 → © done</p>
  <p>Text <!-- kept --> and <code>kept &amp; kept</code>, <kbd>kept</kbd> and <%= kept %> here.</p>
  <pre>
  kept   &copy;
  <b>kept</b></pre>
  <p>Unclosed <code>kept</p><p>Next.</p>
  <img src="kept" alt="One dog"><p>Text <img alt='The sun' title="One tip"/> more</p>
  <label for="kept">Name</label> <input id="kept" placeholder="Your name" value="kept">
  <input type="submit" value="Send"><textarea aria-label="Your text">kept</textarea>
  <select><optgroup label="Animals"><option value="kept">Dog<option>Cat</optgroup></select>
  <p translate="no" title="kept">kept <i>kept</i></p>
  <ul><li translate=no>kept<li>Two <ul><li>Nested</li></ul></ul>
  <span class="notranslate">kept</span> and <span translate="no">kept</span> text
  <table><tr><td>Cell<td>Cell<table><td>Inner</table></table>
  <noscript>Enable scripts</noscript><svg><text>kept</text></svg>
  <div>Direct<p>Paragraph</p>after</div><a href="kept"><h2>Head</h2><p>Text</p></a>
<!-- kept <p>kept</p>
"""

MARKDOWN = """+++
title = "kept"
+++
# One *red* house :kept: {#kept}

Two **cats** &copy; 2024 &mdash; see [the guide](https://kept.kept/a_(b) "The title"), [Full][kept].
One snake\\_case 5 \\* 3 and `kept *kept*`.\x20\x20
Break ![One dog](kept.png "The dog"), <kbd>kept</kbd> and <i title="One tip">more</i>.

$$
\\text{kept} = x
$$

Inline $kept_1 + y$ and \\(kept\\) words[^kept] and [@kept99].

[^1]: One note.
[kept]: http://kept.kept "kept"
[^2]: One
    more.

> [!NOTE]
> Useful
> - item

::: kept
Beware.
:::

!!! kept "kept"

Term
: Definition

<details><summary>Show <b>text</b></summary>

Hidden.

</details>

- [x] The dog
  1. deep **item**

| Dog | Cats |
|---|:-:|
| red `kept\\|y` dog | one \\| two |

[TOC]

```sh
$$ kept
[^kept]: kept
```

    kept

{% kept "kept" %}

Heading <!-- kept --> [[kept]] ~~gone~~ ***both*** __strong__ <https://kept.kept>
===
[![Build](https://kept.kept)](https://kept.kept) badge 😀
"""

VTT = """WEBVTT - kept

STYLE
::cue { kept: kept }

REGION
id:kept

NOTE kept --
kept

kept
00:01.000 --> 00:03.000 align:start position:10%
<v Anna>Two <c.yellow>cats</c> &amp; <00:02.000>dogs.

00:03.000 --> 00:04.000
One ♪ song ♪
"""

SRT = """\ufeff1
00:00:01,000 --> 00:00:03,000 X1:40 X2:600
{\\an8}<font color="#ffff00">One dog.</font>
2
00:00:03,500 --> 00:00:05,000
<i>Two</i> cats.

3
00:00:06,000 --> 00:00:07,000
"""

JSON = '{"a": ["kept_kept", "#ff0", "kept.kept", "keptKept", "One\\tdog", "5 \\u2192 six\\n"]}'

# Files, and the words in them that stay, besides those that are in no unit.
FILES = {
    "html": (
        HTML,
        "html a alert alt amp aria b body br c class code content copy d description div echo euro"
        " for gt h head hellip href i id if img input kbd kept label lang ldquo li lt mdash meta"
        " name nbsp no noscript notranslate optgroup option p php placeholder pre quot rdquo rsquo"
        " script select span src style submit svg table td text textarea title tr translate type ul"
        " value var version x xml",
    ),
    "md": (
        MARKDOWN,
        "a b copy details dog http https i kbd kept mdash png sh summary text title x y",
    ),
    "vtt": (VTT, "align c cue id kept position start v yellow amp"),
    "srt": (SRT, "an color ffff font i"),
    "json": (JSON, "a ff kept n u"),
}


def words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_only_text_is_translated(tmp_path: Path, kind: str, line_end: str) -> None:
    source, kept = FILES[kind]
    source = source.replace("\n", line_end)
    path = tmp_path / f"a.{kind}"
    path.write_bytes(source.encode())
    assert translated(path, str, is_rewritten=False) == source.encode()
    result = translated(path, str.upper).decode()
    assert "".join(result.lower().split()) == "".join(source.lower().split())
    pairs = zip(words(source), words(result), strict=True)
    assert {one for one, other in pairs if one == other and other.islower()} == set(kept.split())


@pytest.mark.parametrize("charset", ["ISO-8859-1", "ASCII", "UTF-8"])
def test_po_keeps_its_encoding_and_what_is_no_message(tmp_path: Path, charset: str) -> None:
    begin = 'msgid ""\r\nmsgstr ""\r\n"Content-Type: text/plain; charset={}\\n"\r\n\r\n# kept\r\n'
    message = '#, fuzzy, c-format\r\n#| msgid "kept"\r\nmsgctxt "kept"\r\nmsgid "a %d\\tdog\\n"\r\n'
    end = '\r\n\r\n#~ msgid "kept"\r\n#~ msgstr "kept"\r\n'
    path = tmp_path / "a.po"
    path.write_bytes(f'{begin.format(charset)}{message}msgstr "old"{end}'.encode(charset))
    is_latin = charset == "ISO-8859-1"
    expected = begin.format(charset if is_latin else "UTF-8") + message + 'msgstr "Ä %D\\tDOG\\n"'
    data = translated(path, lambda text: text.upper().replace("A ", "Ä "))
    assert data.decode("latin1" if is_latin else "utf-8") == expected + end


SNIPPETS = (
    "a dog|\n\n|*|**|_|`|[|](x)|]|![|&copy;|&amp;|\\\\*|<b>|</b>|<p>|</p>|<br>|<code>|</code>"
    "|<!--|-->|→|<li translate=no>|<img alt='a dog'>|<pre>|</pre>|<![x|<? x ?>|$$|[^1]: |> |- |1. "
    "|```|# |---|~~|:::|{|}|{%|\t|  |\r\n|<script>|</script>|</|<|>|\"|'|=|é|&lt;b&gt;|&nbsp;"
    "| | a | b |\n|-|-|\n"
)


@pytest.mark.parametrize("kind", ["md", "html"])
@given(st.lists(st.sampled_from(SNIPPETS.split("|")), max_size=12).map("".join))
def test_any_markup_is_kept(kind: str, text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{kind}"
        path.write_bytes(text.encode())
        assert translated(path, str, is_rewritten=False) == text.encode()
        result = translated(path, str.upper).decode()
    if kind == "html":
        texts = ("".join(html.unescape(one).lower().split()) for one in (text, result))
    else:
        texts = (sorted(re.findall(r"&\w+;|</?\w+", one.lower())) for one in (text, result))
    assert len(set(map(str, texts))) == 1


def test_formats_of_a_word_that_another_case_makes_longer(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p><b>Stra</b>ße <i>hier</i></p>", encoding="utf-8")
    assert b"<p><b>STRASSE</b> <i>HIER</i></p>" in translated(path, str.upper)


def test_deep_elements_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<b><i>dog " * 300 + "</i></b>" * 300)
    result = translated(path, str.upper).decode()
    assert [result.count(one) for one in ("<b>", "</i>", "DOG")] == [300] * 3
