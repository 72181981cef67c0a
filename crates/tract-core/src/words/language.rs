//! Languages: stop words, and the forms of a word that share a stem.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};

/// A language whose words are stemmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// Also used for text whose language is not recognized.
    #[default]
    English,
    /// German.
    German,
    /// French.
    French,
    /// Spanish.
    Spanish,
    /// Portuguese.
    Portuguese,
    /// Italian.
    Italian,
    /// Dutch.
    Dutch,
    /// Russian.
    Russian,
}

impl Language {
    const ALL: [Self; 8] = [
        Self::English,
        Self::German,
        Self::French,
        Self::Spanish,
        Self::Portuguese,
        Self::Italian,
        Self::Dutch,
        Self::Russian,
    ];

    /// Recognizes the language of a text by its stop words. Returns English unless another language
    /// has more of them.
    ///
    /// ```
    /// use tract_core::words::Language;
    /// assert_eq!(Language::of(["wann", "wurde", "der", "server", "neu", "gestartet"]), Language::German);
    /// assert_eq!(Language::of(["deploy"]), Language::English);
    /// ```
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut counts = [0usize; Self::ALL.len()];
        for word in words {
            for (count, language) in counts.iter_mut().zip(Self::ALL) {
                *count += usize::from(language.is_stop_word(word));
            }
        }
        let (mut best, mut most) = (Self::English, counts[0]);
        for (count, language) in counts.into_iter().zip(Self::ALL) {
            if count > most {
                (best, most) = (language, count);
            }
        }
        best
    }

    /// Returns whether a word, in normal form, says little about a text that contains it: an
    /// article, a pronoun, a question word.
    pub fn is_stop_word(self, word: &str) -> bool {
        self.stop_words().contains(&word)
    }

    /// Returns the stem of a word in normal form. Words with characters other than letters are
    /// their own stem.
    ///
    /// ```
    /// use tract_core::words::Language;
    /// assert_eq!(Language::English.stem("deploying"), Language::English.stem("deployed"));
    /// ```
    pub fn stem(self, word: &str) -> Cow<'_, str> {
        let mut letters = 0;
        for c in word.chars() {
            if !c.is_alphabetic() {
                return Cow::Borrowed(word);
            }
            letters += 1;
        }
        match letters {
            0..3 => Cow::Borrowed(word),
            _ => Stemmer::new(self.for_script(word).algorithm()).stem(word),
        }
    }

    /// Returns the language for the script of a word: the algorithms leave other scripts unchanged.
    fn for_script(self, word: &str) -> Self {
        match word.chars().next() {
            Some('\u{400}'..='\u{4ff}') => Self::Russian,
            Some(_) if self == Self::Russian => Self::English,
            _ => self,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::English => Algorithm::English,
            Self::German => Algorithm::German,
            Self::French => Algorithm::French,
            Self::Spanish => Algorithm::Spanish,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Italian => Algorithm::Italian,
            Self::Dutch => Algorithm::Dutch,
            Self::Russian => Algorithm::Russian,
        }
    }

    fn stop_words(self) -> &'static [&'static str] {
        match self {
            Self::English => &[
                "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are",
                "as", "at", "be", "because", "been", "before", "being", "both", "but", "by", "can",
                "could", "d", "did", "do", "does", "doing", "don", "done", "during", "each", "for",
                "from", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his",
                "how", "i", "if", "in", "into", "is", "it", "its", "just", "ll", "m", "may", "me",
                "might", "more", "most", "my", "no", "nor", "not", "now", "of", "on", "only", "or",
                "other", "our", "ours", "out", "over", "own", "re", "s", "same", "shall", "she",
                "should", "so", "some", "such", "t", "than", "that", "the", "their", "theirs",
                "them", "then", "there", "these", "they", "this", "those", "to", "too", "under",
                "until", "up", "us", "ve", "very", "was", "we", "were", "what", "when", "where",
                "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "you",
                "your", "yours",
            ],
            Self::German => &[
                "aber", "als", "am", "an", "auch", "auf", "aus", "bei", "bin", "bis", "das",
                "dass", "dem", "den", "der", "des", "die", "du", "durch", "ein", "eine", "einem",
                "einen", "einer", "er", "es", "fur", "habe", "haben", "hat", "hatte", "ich", "ihr",
                "im", "in", "ist", "kann", "man", "mein", "meine", "mir", "mit", "nach", "nicht",
                "noch", "nur", "oder", "sein", "sich", "sie", "sind", "so", "uber", "um", "und",
                "uns", "vom", "von", "vor", "wann", "war", "waren", "warum", "was", "wer", "wie",
                "wir", "wird", "wo", "wurde", "wurden", "zu", "zum", "zur",
            ],
            Self::French => &[
                "a", "au", "aux", "avec", "avons", "c", "ce", "ces", "cette", "comment", "d",
                "dans", "de", "des", "du", "elle", "en", "est", "et", "ete", "etait", "eu", "il",
                "ils", "j", "je", "l", "la", "le", "les", "leur", "lui", "m", "ma", "mais", "me",
                "mes", "mon", "n", "ne", "nos", "notre", "nous", "on", "ont", "ou", "par", "pas",
                "pour", "pourquoi", "qu", "quand", "que", "quel", "quelle", "qui", "quoi", "s",
                "sa", "se", "ses", "son", "sont", "sur", "ta", "tu", "un", "une", "vos", "votre",
                "vous", "y",
            ],
            Self::Spanish => &[
                "a", "al", "como", "con", "cual", "cuando", "de", "del", "donde", "el", "ella",
                "ellos", "en", "era", "es", "esta", "estaba", "este", "esto", "fue", "ha", "han",
                "hay", "la", "las", "le", "lo", "los", "mas", "me", "mi", "mis", "muy", "no",
                "nos", "o", "para", "pero", "por", "porque", "que", "quien", "se", "ser", "si",
                "sin", "sobre", "son", "su", "sus", "te", "tu", "un", "una", "y", "ya", "yo",
            ],
            Self::Portuguese => &[
                "a", "ao", "aos", "as", "com", "como", "da", "das", "de", "do", "dos", "e", "ela",
                "ele", "em", "era", "essa", "esse", "esta", "este", "eu", "foi", "foram", "isso",
                "ja", "mais", "mas", "me", "meu", "minha", "muito", "na", "nao", "nas", "no",
                "nos", "o", "onde", "os", "ou", "para", "pela", "pelo", "por", "porque", "qual",
                "quando", "que", "quem", "se", "sem", "ser", "seu", "sua", "tem", "um", "uma",
                "voce",
            ],
            Self::Italian => &[
                "a", "ad", "ai", "al", "alla", "anche", "c", "che", "chi", "ci", "come", "con",
                "cosa", "da", "dal", "dei", "del", "della", "delle", "di", "dove", "e", "era",
                "gli", "ha", "hanno", "ho", "i", "il", "in", "io", "l", "la", "le", "lo", "ma",
                "mi", "mio", "nel", "nella", "noi", "non", "o", "per", "perche", "piu", "quale",
                "quando", "questa", "questo", "se", "si", "sono", "su", "sua", "suo", "tra", "un",
                "una", "uno",
            ],
            Self::Dutch => &[
                "aan", "al", "als", "bij", "dan", "dat", "de", "deze", "die", "dit", "een", "en",
                "er", "geen", "had", "hebben", "heb", "heeft", "het", "hij", "hoe", "ik", "in",
                "is", "je", "kan", "maar", "me", "met", "mijn", "naar", "niet", "nog", "nu", "of",
                "om", "ons", "ook", "op", "over", "te", "tot", "uit", "van", "voor", "waar",
                "waarom", "wanneer", "waren", "was", "wat", "we", "welke", "werd", "wie", "wij",
                "ze", "zich", "zij", "zijn",
            ],
            Self::Russian => &[
                "а",
                "без",
                "был",
                "была",
                "были",
                "было",
                "в",
                "во",
                "вот",
                "все",
                "вы",
                "где",
                "да",
                "для",
                "до",
                "его",
                "ее",
                "если",
                "же",
                "за",
                "и",
                "из",
                "или",
                "их",
                "к",
                "как",
                "какои",
                "когда",
                "кто",
                "ли",
                "мне",
                "мы",
                "на",
                "нас",
                "не",
                "нет",
                "но",
                "о",
                "об",
                "он",
                "она",
                "они",
                "от",
                "по",
                "почему",
                "при",
                "с",
                "со",
                "так",
                "то",
                "ты",
                "у",
                "что",
                "чтобы",
                "это",
                "я",
            ],
        }
    }
}

/// The words with the same stem as a given word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stems {
    language: Language,
    stem: String,
    prefix: String,
}

impl Stems {
    /// Returns the forms of a word; `None` for a word that has no others, such as a number.
    pub fn of(language: Language, word: &str) -> Option<Self> {
        if word.chars().nth(2).is_none() || !word.chars().all(char::is_alphabetic) {
            return None;
        }
        let stem = language.stem(word).into_owned();
        let shared = word.char_indices().zip(stem.chars()).take_while(|((_, a), b)| a == b);
        let end = shared.last().map_or(0, |((at, c), _)| at + c.len_utf8());
        let mut prefix = word.get(..end).unwrap_or_default();
        // These may change or vanish: city, cities; hope, hoping; cheval, chevaux.
        if prefix.chars().nth(2).is_some() {
            let changing: &[char] = match language {
                Language::French => &['e', 'i', 'y', 'l'],
                _ => &['e', 'i', 'y'],
            };
            prefix = prefix.strip_suffix(changing).unwrap_or(prefix);
        }
        let prefix = prefix.to_owned();
        (!prefix.is_empty()).then_some(Self { language, stem, prefix })
    }

    /// Returns the beginning that all forms share, so that a sorted list of words has them next to
    /// each other.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whether a word in normal form begins with the prefix and has the stem.
    pub fn contains(&self, word: &str) -> bool {
        word.starts_with(&self.prefix) && self.language.stem(word) == self.stem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_share_a_stem_and_a_prefix() {
        for (language, words) in [
            (Language::English, &["deploy", "deploys", "deployed", "deploying"][..]),
            (Language::English, &["city", "cities"]),
            (Language::English, &["hope", "hoped", "hoping", "hopes"]),
            (Language::English, &["run", "runs", "running"]),
            (Language::English, &["try", "tries", "tried", "trying"]),
            (Language::German, &["haus", "hauser", "hausern"]),
            (Language::French, &["cheval", "chevaux"]),
            (Language::Spanish, &["biblioteca", "bibliotecas"]),
            (Language::English, &["книга", "книги", "книгу"]),
        ] {
            for word in words {
                let stems = Stems::of(language, word).expect("it has forms");
                for form in words {
                    assert!(stems.contains(form), "{word}: {form}, {stems:?}");
                }
            }
        }
        let deploy = Stems::of(Language::English, "deploy").expect("it has forms");
        assert!(!deploy.contains("depot") && !deploy.contains("redeploy"));
        for word in ["v2", "42", "parse_json", "is"] {
            assert_eq!(Stems::of(Language::English, word), None, "{word}");
        }
    }

    #[test]
    fn stop_words_are_in_normal_form_and_tell_the_language() {
        for language in Language::ALL {
            for word in language.stop_words() {
                let mut words = Vec::new();
                super::super::each_word(word, |word| words.push(word.text.to_owned()));
                assert_eq!(words, [*word], "{language:?}");
            }
        }
        for (language, text) in [
            (Language::English, "what did we do about the login"),
            (Language::German, "warum hat der server die verbindung verloren"),
            (Language::French, "pourquoi le serveur ne repond pas"),
            (Language::Spanish, "donde esta el archivo de la prueba"),
            (Language::Russian, "когда мы исправили вход"),
        ] {
            assert_eq!(Language::of(text.split(' ')), language, "{text}");
        }
    }
}
