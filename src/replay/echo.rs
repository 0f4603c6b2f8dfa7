//! Whether a server's words repeat what was sent to it: a message and a body → yes or no.
//!
//! Results hold no prompt text, and servers like to quote what they refuse. Words that share
//! [`ECHO_BYTES`] in a row with the body are taken for a quotation. The body is JSON, so the words
//! are looked for as they are and as JSON would write them. Shorter pieces are not told from chance.

/// Words that share this many bytes in a row with the body repeat it.
const ECHO_BYTES: usize = 24;
/// Any run of [`ECHO_BYTES`] holds one whole block of the body, if blocks are of this length.
const BLOCK_BYTES: usize = ECHO_BYTES / 2;

/// Returns whether `words` repeat a part of the JSON `body`, other than `known` (the model's name).
pub(super) fn repeats(words: &str, body: &[u8], known: &str) -> bool {
    // A control character stands in no JSON, so nothing matches across a place that was cut out.
    let words = if known.is_empty() { words.to_owned() } else { words.replace(known, "\u{1}") };
    // Text in escapes cannot be compared byte by byte.
    if words.contains("\\u") {
        return true;
    }
    let quoted = serde_json::to_string(&words).unwrap_or_default();
    shares_a_run(words.as_bytes(), body) || shares_a_run(quoted.as_bytes(), body)
}

/// Returns whether two texts have [`ECHO_BYTES`] in a row in common; one pass over `long`.
fn shares_a_run(short: &[u8], long: &[u8]) -> bool {
    let mut blocks: Vec<(&[u8], usize)> =
        short.windows(BLOCK_BYTES).enumerate().map(|(at, block)| (block, at)).collect();
    blocks.sort_unstable();
    long.chunks_exact(BLOCK_BYTES).enumerate().any(|(number, block)| {
        let first = blocks.partition_point(|(known, _)| *known < block);
        let found = blocks.iter().skip(first).take_while(|(known, _)| *known == block);
        let in_long = number * BLOCK_BYTES;
        found.into_iter().any(|(_, in_short)| run_at((short, *in_short), (long, in_long)))
    })
}

/// Returns whether the block that two texts share at two places lies in a run of [`ECHO_BYTES`].
fn run_at((a, at): (&[u8], usize), (b, bt): (&[u8], usize)) -> bool {
    let (before_a, after_a) = a.split_at(at);
    let (before_b, after_b) = b.split_at(bt);
    let same = |(x, y): &(&u8, &u8)| x == y;
    let before = before_a.iter().rev().zip(before_b.iter().rev()).take_while(same).count();
    let after = after_a.iter().zip(after_b).take_while(same).count();
    before + after >= ECHO_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str =
        "It was a bright cold \"day\" in April,\nand the clocks were striking 中文.";

    fn body() -> Vec<u8> {
        let message = serde_json::json!([{"role": "user", "content": PROMPT}]);
        let model = "organisation/a-model-with-a-long-name";
        serde_json::to_vec(&serde_json::json!({"model": model, "messages": message})).unwrap()
    }

    fn echoed(words: &str) -> bool {
        repeats(words, &body(), "organisation/a-model-with-a-long-name")
    }

    #[test]
    fn the_prompt_in_any_dress_is_found() {
        assert!(echoed(&format!("Invalid prompt: {PROMPT}")));
        assert!(echoed(&String::from_utf8(body()).unwrap()));
        assert!(echoed("bad: d the clocks were striking"));
        assert!(echoed("bad: bright cold \"day\" in Apr"), "quotes are escaped in the body");
        assert!(echoed("bad: \\u4e2d\\u6587"), "escapes are not compared");
    }

    #[test]
    fn own_words_are_none_of_it() {
        for words in [
            "",
            "short",
            "The model `organisation/a-model-with-a-long-name` does not exist",
            "Input of 40000 tokens exceeds the limit of 32768 tokens",
        ] {
            assert!(!echoed(words), "{words}");
        }
        assert!(!repeats("anything at all that is long enough", b"", ""));
    }

    #[test]
    fn the_edge_is_24_bytes_wherever_the_run_lies() {
        let long: Vec<u8> = (0..=255).filter(|byte| *byte != 250).collect();
        for at in 0..60 {
            let run = |bytes: usize| [&[250], &long[at..at + bytes], &[250]].concat();
            assert!(shares_a_run(&run(24), &long), "{at}");
            assert!(!shares_a_run(&run(23), &long), "{at}");
        }
    }
}
