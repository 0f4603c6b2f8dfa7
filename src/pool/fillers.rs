//! Common English words that are one token each with a space before them.
//!
//! They close the last gap of a prompt whose parts do not reach its length. Whether a word is one
//! token is checked at every build for the tokenizer in use; a word that is not is left out.

use super::tokenizer::Tokenizer;
use crate::domain::count::CountTokens;
use crate::domain::pool_index::{PoolEntry, PoolText};

/// The kind of filler entries.
pub(super) const KIND: &str = "filler";

const WORDS: &str = "\
able about above across after again against ago all almost alone along already also although \
always among and another any anyone anything area around ask away back bad bank base because \
become before began behind being below best better between big black blue board body book both \
box boy bring brought build built business but buy call came can car care carry case cause center \
certain chance change check child city clear close cold color come common company complete \
consider contact control cost could country couple course cover create cut data date day deal \
decide deep design detail develop different difficult do does done door doubt down draw drive \
drop during each early east easy effect either else end energy enough enter entire even evening \
event ever every example except expect face fact fall family far fast father feel few field \
figure fill final find fine fire first five focus follow food foot for force foreign form forward \
found four free friend from front full further future game garden gave general get girl give \
given glass goal good got great green ground group grow half hand happen hard have head health \
hear heart heat heavy help her here high him his history hold home hope hot hour house how human \
hundred idea if important in include increase industry inside instead interest into issue it item \
its job join just keep key kind knew know known land language large last late later law lay lead \
learn least leave left less let letter level life light like line list little live local long \
look lost lot love low machine made main major make man many map mark market matter may mean \
measure meet member method middle might mind minute miss model moment money month more morning \
most mother move much music must name nation near need never new news next night no none nor \
north not note nothing now number of off offer office often oil old on once one only open or \
order other our out outside over own page paper part party pass past pay people perhaps period \
person phone place plan plant play point police poor position possible power present press price \
problem process product program project provide public pull put question quick quiet quite rate \
rather reach read ready real reason record red remember report rest result return rich right \
river road rock role room round rule run safe said same save say school sea season second see \
seem sell send sense series serve service set seven several shape share she ship short should \
show side simple since single site six size small snow so social some son soon sort sound source \
south space speak special spring staff stand star start state stay step still stone stop store \
story street strong student study such summer sun support sure system table take talk teacher \
team tell ten test than that the their them then there these they thing think third this those \
though thought three through time to today together told too took top total toward town trade \
train tree trip true try turn two type under unit until up upon us use usual value very view \
visit voice wait walk wall want war warm was watch water way we week well went were west what \
when where which while white who whole why wide will wind window winter wish with within without \
woman wood word work world would write wrong year yet you young your";

/// Returns the filler entries, numbered from `first_id`, one token each.
pub(super) fn fillers(tokenizer: &Tokenizer, first_id: u32) -> Vec<PoolText> {
    let single = WORDS
        .split_whitespace()
        .map(|word| format!(" {word}"))
        .filter(|text| tokenizer.count_tokens(text) == 1 && tokenizer.reference_count(text) == 1);
    (first_id..).zip(single).map(|(entry_id, text)| filler(entry_id, text)).collect()
}

fn filler(entry_id: u32, text: String) -> PoolText {
    let bytes = super::tokenizer::narrow(text.len());
    let entry = PoolEntry { entry_id, tokens: 1, kind: KIND.to_owned(), cut_tokens: vec![1] };
    PoolText { entry, text, cut_bytes: vec![bytes] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_is_listed_once_and_is_one_token_everywhere() {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
        assert!(words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase())));
        for name in Tokenizer::names() {
            let entries = fillers(&Tokenizer::named(name).unwrap(), 7);
            assert_eq!(entries.len(), words.len(), "{name}");
            assert_eq!(entries[0].entry.entry_id, 7);
            assert_eq!((entries[0].text.as_str(), entries[0].cut_bytes[0]), (" able", 5));
        }
    }
}
