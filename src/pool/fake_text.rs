//! Writes natural sentences of its own: grammars filled with names, places and numbers.
//!
//! In: a language, a stream of random numbers, a length in bytes. Out: paragraphs on several
//! themes, each sentence a template of `grammar_en` or `grammar_zh` whose slots the `fake` crate
//! fills. A paragraph keeps to one theme and uses each of its templates at most once; the themes
//! take turns. Every person, company and place is invented.

use super::{grammar_en, grammar_zh};
use crate::domain::seed::Stream;
use fake::Fake;
use fake::faker::address::{en as place_en, zh_cn as place_zh};
use fake::faker::company::{en as company_en, zh_cn as company_zh};
use fake::faker::job::{en as job_en, zh_cn as job_zh};
use fake::faker::name::{en as name_en, zh_cn as name_zh};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};

/// The templates of one theme.
pub(super) type Theme = &'static [&'static str];

/// Sentences of a paragraph, at least and at most.
const PARAGRAPH: std::ops::RangeInclusive<usize> = 3..=6;

/// A language this program can write in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// English.
    English,
    /// Chinese in simplified characters.
    Chinese,
}

impl Language {
    /// Returns the language of a two-letter code (`en`, `zh`).
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::English, Self::Chinese].into_iter().find(|language| language.code() == code)
    }

    /// Returns the two-letter code; also the kind of the pool's entries.
    pub const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
        }
    }

    /// Returns about how many bytes one token takes, for a first guess of a length.
    const fn bytes_per_token(self) -> usize {
        match self {
            Self::English => 5,
            Self::Chinese => 4,
        }
    }

    const fn themes(self) -> &'static [Theme] {
        match self {
            Self::English => grammar_en::THEMES,
            Self::Chinese => grammar_zh::THEMES,
        }
    }

    /// What stands between two sentences of a paragraph.
    const fn gap(self) -> &'static str {
        match self {
            Self::English => " ",
            Self::Chinese => "",
        }
    }
}

/// Writes paragraphs of at least `tokens` tokens by a generous guess; ends with a sentence.
pub fn write_text(language: Language, tokens: u32, stream: &mut Stream) -> String {
    let wanted = usize::try_from(tokens).unwrap_or(usize::MAX);
    let bytes = wanted.saturating_mul(language.bytes_per_token());
    let mut themes = language.themes().to_vec();
    themes.shuffle(stream);
    let mut text = String::new();
    for theme in themes.into_iter().cycle() {
        let mut templates = theme.to_vec();
        templates.shuffle(stream);
        for (at, template) in templates.iter().take(stream.random_range(PARAGRAPH)).enumerate() {
            text.push_str(if at == 0 { "" } else { language.gap() });
            expand(template, language, stream, &mut text);
            if text.len() >= bytes {
                return text;
            }
        }
        text.push_str("\n\n");
    }
    text
}

/// Writes a template with its choices made and its slots filled.
fn expand(template: &str, language: Language, stream: &mut Stream, out: &mut String) {
    let mut rest = template;
    while let Some((before, opened, after)) = split_at_any(rest, &['(', '{']) {
        out.push_str(before);
        let close = if opened == '(' { ')' } else { '}' };
        let Some((inside, behind)) = after.split_once(close) else { break };
        if opened == '(' {
            let choices: Vec<&str> = inside.split('|').collect();
            if let Some(choice) = choices.choose(stream) {
                expand(choice, language, stream, out);
            }
        } else {
            out.push_str(&fill(inside, language, stream));
        }
        rest = behind;
    }
    out.push_str(rest);
}

fn split_at_any<'a>(text: &'a str, marks: &[char]) -> Option<(&'a str, char, &'a str)> {
    let at = text.find(marks)?;
    let (before, from) = text.split_at_checked(at)?;
    let mut chars = from.chars();
    let mark = chars.next()?;
    Some((before, mark, chars.as_str()))
}

/// Returns the filling of a slot; a number for `low-high`, the braces and all for an unknown name.
fn fill(slot: &str, language: Language, stream: &mut Stream) -> String {
    let bounds = slot
        .split_once('-')
        .and_then(|(low, high)| Some((low.parse::<u32>().ok()?, high.parse::<u32>().ok()?)));
    if let Some((low, high)) = bounds {
        return (low..=high).fake_with_rng::<u32, _>(stream).to_string();
    }
    let filled = match language {
        Language::English => fill_en(slot, stream),
        Language::Chinese => fill_zh(slot, stream),
    };
    filled.unwrap_or_else(|| format!("{{{slot}}}"))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const ORDINALS: [&str; 8] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "eighth", "tenth"];
const WEEKDAYS_ZH: [&str; 7] =
    ["星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"];
const PARTS_OF_DAY_ZH: [(&str, u32, u32); 4] =
    [("凌晨", 1, 5), ("上午", 8, 11), ("下午", 1, 5), ("晚上", 7, 11)];

fn fill_en(slot: &str, stream: &mut Stream) -> Option<String> {
    let text = match slot {
        "Name" => {
            let first: String = name_en::FirstName().fake_with_rng(stream);
            format!("{first} {}", name_en::LastName().fake_with_rng::<String, _>(stream))
        }
        "first" => name_en::FirstName().fake_with_rng(stream),
        "company" => company_en::CompanyName().fake_with_rng(stream),
        "industry" => company_en::Industry().fake_with_rng::<String, _>(stream).to_lowercase(),
        "city" => place_en::CityName().fake_with_rng(stream),
        "street" => place_en::StreetName().fake_with_rng(stream),
        "building" => number(1, 480, stream).to_string(),
        "country" => place_en::CountryName().fake_with_rng(stream),
        "job" => job_en::Position().fake_with_rng::<String, _>(stream).to_lowercase(),
        "month" => pick(&MONTHS, stream).to_owned(),
        "weekday" => pick(&WEEKDAYS, stream).to_owned(),
        "ordinal" => pick(&ORDINALS, stream).to_owned(),
        "date" => {
            let (month, day) = (pick(&MONTHS, stream), number(1, 28, stream));
            format!("{day} {month} {}", number(2009, 2025, stream))
        }
        "time" => format!("{}:{:02}", number(0, 23, stream), number(0, 59, stream)),
        _ => return None,
    };
    Some(text)
}

fn fill_zh(slot: &str, stream: &mut Stream) -> Option<String> {
    let text = match slot {
        "Name" => name_zh::Name().fake_with_rng(stream),
        "first" => {
            let last: String = name_zh::LastName().fake_with_rng(stream);
            format!("{}{last}", pick(&["小", "老"], stream))
        }
        "company" => {
            let first: String = name_zh::FirstName().fake_with_rng(stream);
            format!("{first}{}", company_zh::CompanySuffix().fake_with_rng::<String, _>(stream))
        }
        "industry" => company_zh::Industry().fake_with_rng(stream),
        "city" => place_zh::CityName().fake_with_rng(stream),
        "street" => place_zh::StreetName().fake_with_rng(stream),
        "building" => number(1, 480, stream).to_string(),
        "country" => place_zh::CountryName().fake_with_rng(stream),
        "job" => job_zh::Position().fake_with_rng(stream),
        "month" => format!("{}月", number(1, 12, stream)),
        "weekday" => pick(&WEEKDAYS_ZH, stream).to_owned(),
        "date" => {
            let (year, month) = (number(2009, 2025, stream), number(1, 12, stream));
            format!("{year}年{month}月{}日", number(1, 28, stream))
        }
        "time" => {
            let (part, low, high) =
                PARTS_OF_DAY_ZH.choose(stream).copied().unwrap_or(("上午", 8, 11));
            format!("{part}{}点{}分", number(low, high, stream), number(1, 59, stream))
        }
        _ => return None,
    };
    Some(text)
}

fn number(low: u32, high: u32, stream: &mut Stream) -> u32 {
    (low..=high).fake_with_rng(stream)
}

fn pick(from: &[&'static str], stream: &mut Stream) -> &'static str {
    from.choose(stream).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seed::Seed;

    const BOTH: [Language; 2] = [Language::English, Language::Chinese];

    #[test]
    fn codes_are_known() {
        for language in BOTH {
            assert_eq!(Language::from_code(language.code()), Some(language));
        }
        assert_eq!(Language::from_code("fr"), None);
    }

    #[test]
    fn every_template_is_filled_and_ends_a_sentence() {
        for language in BOTH {
            let templates = language.themes().concat();
            assert!(templates.len() >= 70, "{} templates", templates.len());
            for template in templates {
                let mut text = String::new();
                expand(template, language, &mut Seed(3).stream("test"), &mut text);
                assert!(!text.contains(['{', '}', '(', ')', '|']), "{template}\n{text}");
                assert!(text.ends_with(['.', '?', '。']), "{text}");
                assert!(!text.contains("  "), "{text}");
            }
        }
    }

    #[test]
    fn the_same_stream_writes_the_same_text() {
        for language in BOTH {
            let write = |seed| write_text(language, 200, &mut Seed(seed).stream("test"));
            assert_eq!(write(1), write(1));
            assert_ne!(write(1), write(2));
            assert!(write(1).len() >= 200 * language.bytes_per_token());
            assert!(write_text(language, 0, &mut Seed(1).stream("test")).len() > 10);
        }
    }

    #[test]
    fn no_sentence_comes_twice_in_a_long_text() {
        for language in BOTH {
            let text = write_text(language, 3_000, &mut Seed(5).stream("test"));
            let mut sentences: Vec<&str> =
                text.split(['\n', '。']).filter(|line| line.chars().count() > 12).collect();
            let all = sentences.len();
            sentences.sort_unstable();
            sentences.dedup();
            assert_eq!(sentences.len(), all);
        }
    }
}
