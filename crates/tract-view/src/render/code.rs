//! Colors code by its tokens: comments, strings, numbers, keywords, and names of functions and types.
//!
//! One pass over the text with a table per family of languages. A page has up to 200 messages and
//! must be painted within 200 ms, so a full grammar of each language is more than it can pay for:
//! `docs/decisions/how-pages-render-recorded-text.md`.

use maud::{Markup, PreEscaped};

use super::escape;

/// How to split the code of a family of languages into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Language {
    /// Names in fences and file extensions.
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Characters that start and end a string.
    quotes: &'static [char],
    /// Quotes whose strings may contain line breaks.
    long_quotes: &'static [char],
    keywords: &'static [&'static str],
    ignores_case: bool,
}

const PLAIN: Language = Language {
    names: &[],
    line_comments: &[],
    block_comment: None,
    quotes: &['"', '\''],
    long_quotes: &[],
    keywords: &[],
    ignores_case: false,
};

const BLOCK: Option<(&str, &str)> = Some(("/*", "*/"));

/// The families. The first one with a name is used.
static LANGUAGES: [Language; 9] = [
    Language {
        names: &["rust", "rs"],
        line_comments: &["//"],
        block_comment: BLOCK,
        // A single quote also starts a lifetime, so it starts no string.
        quotes: &['"'],
        long_quotes: &['"'],
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
            "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod",
            "move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct", "super",
            "trait", "true", "type", "unsafe", "use", "where", "while",
        ],
        ..PLAIN
    },
    Language {
        names: &[
            "c",
            "h",
            "cc",
            "cpp",
            "hpp",
            "c++",
            "cs",
            "csharp",
            "java",
            "kt",
            "kotlin",
            "swift",
            "scala",
            "go",
            "golang",
            "js",
            "javascript",
            "jsx",
            "mjs",
            "cjs",
            "ts",
            "typescript",
            "tsx",
            "php",
            "dart",
            "zig",
            "proto",
            "groovy",
            "gradle",
        ],
        line_comments: &["//"],
        block_comment: BLOCK,
        quotes: &['"', '\'', '`'],
        long_quotes: &['`'],
        keywords: &[
            "abstract",
            "as",
            "async",
            "await",
            "bool",
            "boolean",
            "break",
            "case",
            "catch",
            "chan",
            "char",
            "class",
            "const",
            "continue",
            "default",
            "defer",
            "delete",
            "do",
            "double",
            "else",
            "enum",
            "export",
            "extends",
            "false",
            "final",
            "finally",
            "float",
            "for",
            "foreach",
            "from",
            "func",
            "function",
            "go",
            "if",
            "implements",
            "import",
            "in",
            "include",
            "instanceof",
            "int",
            "interface",
            "let",
            "long",
            "map",
            "namespace",
            "new",
            "nil",
            "null",
            "of",
            "override",
            "package",
            "private",
            "protected",
            "public",
            "range",
            "readonly",
            "return",
            "select",
            "short",
            "static",
            "string",
            "struct",
            "super",
            "switch",
            "this",
            "throw",
            "throws",
            "true",
            "try",
            "type",
            "typeof",
            "undefined",
            "unsigned",
            "using",
            "val",
            "var",
            "void",
            "when",
            "while",
            "yield",
        ],
        ..PLAIN
    },
    Language {
        names: &["python", "py", "pyi", "ruby", "rb", "r", "julia", "jl", "elixir", "ex", "nim"],
        line_comments: &["#"],
        keywords: &[
            "and", "as", "assert", "async", "await", "begin", "break", "case", "class", "continue",
            "def", "del", "do", "elif", "else", "elsif", "end", "ensure", "except", "False",
            "finally", "for", "from", "function", "global", "if", "import", "in", "is", "lambda",
            "match", "module", "nil", "None", "nonlocal", "not", "or", "pass", "raise", "require",
            "rescue", "return", "self", "then", "True", "try", "unless", "until", "when", "while",
            "with", "yield",
        ],
        ..PLAIN
    },
    Language {
        names: &["sh", "bash", "zsh", "fish", "shell", "console", "dockerfile", "makefile", "mk"],
        line_comments: &["#"],
        long_quotes: &['"', '\''],
        keywords: &[
            "case",
            "cd",
            "do",
            "done",
            "echo",
            "elif",
            "else",
            "esac",
            "exit",
            "export",
            "fi",
            "for",
            "function",
            "if",
            "in",
            "local",
            "return",
            "set",
            "source",
            "sudo",
            "then",
            "until",
            "while",
            "FROM",
            "RUN",
            "COPY",
            "WORKDIR",
            "CMD",
            "ENTRYPOINT",
            "ENV",
            "ARG",
        ],
        ..PLAIN
    },
    Language {
        names: &["sql", "sqlite", "postgres", "mysql"],
        line_comments: &["--"],
        block_comment: BLOCK,
        keywords: &[
            "add",
            "all",
            "alter",
            "and",
            "as",
            "asc",
            "begin",
            "between",
            "by",
            "case",
            "column",
            "commit",
            "constraint",
            "create",
            "default",
            "delete",
            "desc",
            "distinct",
            "drop",
            "else",
            "end",
            "exists",
            "foreign",
            "from",
            "group",
            "having",
            "if",
            "in",
            "index",
            "insert",
            "into",
            "is",
            "join",
            "key",
            "left",
            "like",
            "limit",
            "not",
            "null",
            "on",
            "or",
            "order",
            "outer",
            "primary",
            "references",
            "rollback",
            "select",
            "set",
            "table",
            "then",
            "union",
            "unique",
            "update",
            "values",
            "view",
            "when",
            "where",
            "with",
        ],
        ignores_case: true,
        ..PLAIN
    },
    Language {
        names: &["toml", "yaml", "yml", "ini", "cfg", "conf", "env", "properties", "tf", "hcl"],
        line_comments: &["#"],
        keywords: &["true", "false", "null", "yes", "no", "on", "off"],
        ..PLAIN
    },
    Language {
        names: &["json", "jsonl", "json5", "jsonc"],
        quotes: &['"'],
        keywords: &["true", "false", "null"],
        ..PLAIN
    },
    Language {
        names: &["css", "scss", "less"],
        block_comment: BLOCK,
        keywords: &["important", "media", "import", "var", "root", "hover", "auto", "none"],
        ..PLAIN
    },
    Language {
        names: &["html", "htm", "xml", "svg", "vue", "svelte"],
        block_comment: Some(("<!--", "-->")),
        quotes: &['"'],
        ..PLAIN
    },
];

impl Language {
    /// Finds a language by its name in a fence, or by the extension of a file. The words after a
    /// name, as in `rust,no_run`, are ignored.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        let end = name.find(|c: char| c == ',' || c == '{' || c.is_whitespace());
        let name = name.get(..end.unwrap_or(name.len()))?.to_ascii_lowercase();
        LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()))
    }

    /// Finds the language of a file by its path.
    pub(crate) fn of_path(path: &str) -> Option<&'static Self> {
        let name = path.rsplit(['/', '\\']).next()?;
        Self::of(name.rsplit('.').next()?)
    }
}

/// Renders code with the tokens of its language in colors; without a language as it is.
pub(crate) fn highlighted(code: &str, language: Option<&Language>) -> Markup {
    let mut out = String::with_capacity(code.len() * 2);
    highlight(code, language, &mut out);
    PreEscaped(out)
}

/// As [`highlighted`], appended to `out`.
pub(crate) fn highlight(code: &str, language: Option<&Language>, out: &mut String) {
    let Some(language) = language else { return escape(code, out) };
    let mut left = code;
    // The text since the last colored token, which is written in one piece.
    let mut plain = 0;
    let mut before = None;
    while let Some(next) = left.chars().next() {
        let (class, length) = language.token(left, next, before);
        let start = code.len() - left.len();
        let Some(token) = left.get(..length) else { break };
        if let Some(class) = class {
            escape(code.get(plain..start).unwrap_or_default(), out);
            out.push_str("<span class=\"");
            out.push_str(class);
            out.push_str("\">");
            escape(token, out);
            out.push_str("</span>");
            plain = start + length;
        }
        before = token.chars().next_back();
        left = left.get(length..).unwrap_or_default();
    }
    escape(code.get(plain..).unwrap_or_default(), out);
}

impl Language {
    /// Returns the class and the length in bytes of the token at the start of `code`, which is not
    /// empty and starts with `first`. The class is `None` for text without a color.
    fn token(
        &self,
        code: &str,
        first: char,
        before: Option<char>,
    ) -> (Option<&'static str>, usize) {
        if let Some((open, close)) = self.block_comment
            && let Some(inner) = code.strip_prefix(open)
        {
            let end = inner.find(close).map(|at| open.len() + at + close.len());
            return (Some("c"), end.unwrap_or(code.len()));
        }
        // In shells and YAML, `#` starts a comment only at the start of a word.
        let at_start = before.is_none_or(|c| c.is_whitespace() || c == ';' || c == ')');
        let is_comment = |mark: &str| code.starts_with(mark) && (mark != "#" || at_start);
        if self.line_comments.iter().any(|mark| is_comment(mark)) {
            return (Some("c"), code.find('\n').unwrap_or(code.len()));
        }
        if self.quotes.contains(&first) {
            return (Some("s"), self.string(code, first));
        }
        if first.is_ascii_digit() {
            let end = code.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
            return (Some("n"), end.unwrap_or(code.len()));
        }
        if first.is_alphabetic() || first == '_' {
            let end = code.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            let word = code.get(..end.unwrap_or(code.len())).unwrap_or_default();
            let after = code.get(word.len()..).unwrap_or_default();
            return (self.word(word, after, before), word.len());
        }
        (None, first.len_utf8())
    }

    fn word(&self, word: &str, after: &str, before: Option<char>) -> Option<&'static str> {
        let is_same = |keyword: &&&str| match self.ignores_case {
            true => keyword.eq_ignore_ascii_case(word),
            false => **keyword == word,
        };
        let is_member = before == Some('.');
        if self.keywords.iter().any(|keyword| is_same(&keyword)) && !is_member {
            Some("k")
        } else if after.starts_with(['(', '!']) && !after.starts_with("!=") {
            Some("f")
        } else if word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase) {
            Some("t")
        } else if matches!(before, Some('<' | '/')) && self.block_comment == Some(("<!--", "-->")) {
            Some("k")
        } else {
            None
        }
    }

    /// Returns the length of the string at the start of `code`. A string that is not closed ends
    /// with its line.
    fn string(&self, code: &str, quote: char) -> usize {
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        if let Some(inner) = code.strip_prefix(&triple) {
            return inner.find(&triple).map_or(code.len(), |at| at + 6);
        }
        let is_long = self.long_quotes.contains(&quote);
        let mut is_escaped = false;
        for (at, c) in code.char_indices().skip(1) {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '\n' if !is_long => return at,
                _ if c == quote => return at + c.len_utf8(),
                _ => {}
            }
        }
        code.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, code: &str, html: &str) {
        assert_eq!(highlighted(code, Language::of(language)).into_string(), html);
    }

    #[test]
    fn tokens_are_colored() {
        check(
            "rust,no_run",
            "let x: Vec<u8> = f(\"a\\\"b\", 1_000); // done",
            "<span class=\"k\">let</span> x: <span class=\"t\">Vec</span>&lt;u8&gt; = <span class=\"f\">f</span>(\
             <span class=\"s\">&quot;a\\&quot;b&quot;</span>, <span class=\"n\">1_000</span>); <span class=\"c\">// done</span>",
        );
        check(
            "py",
            "'''a\nb''' # c",
            "<span class=\"s\">'''a\nb'''</span> <span class=\"c\"># c</span>",
        );
        check("sql", "Select 1", "<span class=\"k\">Select</span> <span class=\"n\">1</span>");
        check("sh", "a#b", "a#b");
        check("", "let x", "let x");
    }

    #[test]
    fn unfinished_tokens_end_with_the_text() {
        for code in ["\"open", "/* open", "'''open", "\"\\", "\u{202e}/*\u{1b}", "ä\"ß"] {
            for language in &LANGUAGES {
                let html = highlighted(code, Some(language)).into_string();
                assert_eq!(
                    html.matches("<span").count(),
                    html.matches("</span>").count(),
                    "{code}"
                );
                assert!(!html.contains(['\u{1b}', '\u{202e}']), "{html}");
            }
        }
    }

    #[test]
    fn a_path_names_its_language() {
        assert_eq!(Language::of_path("/src/a.min.js"), Language::of("javascript"));
        assert_eq!(Language::of_path("C:\\x\\a.RS"), Language::of("rust"));
        assert_eq!(Language::of_path("notes"), None);
    }
}
