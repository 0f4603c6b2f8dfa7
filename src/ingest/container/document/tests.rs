//! Tests of cutting documents: shapes, damage, cuts and borders of blocks anywhere.

use super::super::list;
use super::*;

/// Cuts a text in blocks of a size; the limit is 1,000 bytes.
fn cut(text: &[u8], list: Option<ListPath>, block: usize) -> Result<(Vec<Piece>, u64), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, text).unwrap();
    let source = Source::open(&path, &|_| {}).unwrap();
    let mut documents = Documents::new(source, list, block, 1_000);
    let mut pieces = Vec::new();
    loop {
        match documents.next_chunk() {
            Ok(Some(Chunk::Records(more))) => pieces.extend(more),
            Ok(_) => return Ok((pieces, documents.lines())),
            Err(error) => {
                return Err(error
                    .to_string()
                    .replace(&format!("{}/", folder.path().display()), ""));
            }
        }
    }
}

/// Cuts a text in blocks of several sizes, which must not matter.
fn all(text: &str, list: Option<ListPath>) -> Vec<String> {
    let (whole, lines) = cut(text.as_bytes(), list, 1_000_000).unwrap();
    assert_eq!(lines, convert::count(text.lines().count()));
    for block in [1, 7, 64] {
        assert_eq!(cut(text.as_bytes(), list, block).unwrap().0, whole, "{block}");
    }
    let show = |piece: Piece| {
        let text = match piece.text {
            Ok(text) => text.split_whitespace().collect(),
            Err(error) => format!("! {}", error.reason),
        };
        format!("{}:{} {text}", piece.line, piece.byte.unwrap())
    };
    whole.into_iter().map(show).collect()
}

#[test]
fn arrays_and_objects_in_any_layout() {
    let expected = |places: [&str; 2]| {
        vec![format!("{} {{\"a\":1}}", places[0]), format!("{} {{\"b\":[2,\"]\"]}}", places[1])]
    };
    assert_eq!(all("[{\"a\":1},{\"b\":[2,\"]\"]}]", None), expected(["1:1", "1:9"]));
    assert_eq!(all("[\n{\"a\":1},\r\n{\"b\":[2,\"]\"]},\n]\n", None), expected(["2:2", "3:12"]));
    assert_eq!(all("{\n \"a\": 1\n}\n{\"b\":[2,\"]\"]}", None), expected(["1:0", "4:12"]));
    assert_eq!(all("{\"a\":1}{\"b\":[2,\"]\"]}", None), expected(["1:0", "1:7"]));
    assert_eq!(all("{\"a\":1},\n{\"b\":[2,\"]\"]},\n", None), expected(["1:0", "2:9"]));
    assert_eq!(all("[{\"a\":1}]\n[{\"b\":[2,\"]\"]}]\n", None), expected(["1:1", "2:11"]));
    assert_eq!(all("[]", None), Vec::<String>::new());
}

#[test]
fn lists_inside_documents() {
    let items = list::find("{\"data\":{\"items\":[{").unwrap();
    let text = "{\"ok\":{\"data\":[{\"x\":1}]},\n\"data\":{\"n\":[1],\"items\":[{\"a\":1},{\"a\":2}]},\"total\":2}";
    assert_eq!(all(text, Some(items)), ["2:51 {\"a\":1}", "2:59 {\"a\":2}"]);
    let two = format!("{text}\n{{\"error\":\"none\"}}\n");
    insta::assert_snapshot!(all(&two, Some(items)).join("\n"), @r#"
    2:51 {"a":1}
    2:59 {"a":2}
    3:96 ! has no list where others have one
    "#);
    let loki = "{\"data\":{\"result\":[{\"stream\":{},\"values\":[[\"1\",\"x\"],[\"2\",\"y\"]]},{\"values\":[[\"3\",\"z\"]]}]}}";
    let found = all(loki, Some(list::LOKI));
    assert_eq!(found.len(), 3);
    assert!(found[2].ends_with("[\"3\",\"z\"]"), "{found:?}");
}

#[test]
fn damage_costs_the_record_it_is_in() {
    // Objects one after another: the next begins a line.
    let text = "{\n \"a\": 1\n}\n{\n \"b\":\n{\"c\":1}\nnoise\n{\n \"d\": 1\n}\n";
    insta::assert_snapshot!(all(text, None).join("\n"), @r#"
    1:0 {"a":1}
    4:12 ! is not JSON: a bracket, quote or line end is in the wrong place
    8:34 {"d":1}
    "#);
    // An array: the next begins its line where its neighbours do.
    let text = "[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": \"x\n\"\n  },\n  {\n    \"c\": 1\n  },\n  {\"d\":]}\n]\n";
    insta::assert_snapshot!(all(text, None).join("\n"), @r#"
    2:4 {"a":1}
    5:24 ! is not JSON: a bracket, quote or line end is in the wrong place
    9:47 {"c":1}
    12:67 ! is not JSON: a bracket, quote or line end is in the wrong place
    "#);
    let error = cut(b"[{\"a\":1},{\"b\":]},{\"c\":1}]", None, 7).unwrap_err();
    insta::assert_snapshot!(error, @"log:1: the JSON is broken at byte 14, and nothing tells where the next record begins");
}

#[test]
fn a_cut_file_says_so_in_a_last_record() {
    insta::assert_snapshot!(all("[{\"a\":1},{\"b\":", None).join("\n"), @r#"
    1:1 {"a":1}
    1:9 ! ends in the middle of its JSON: the file is cut
    "#);
    insta::assert_snapshot!(all("[{\"a\":1},\n", None).join("\n"), @r#"
    1:1 {"a":1}
    2:10 ! is missing: the file ends inside its list
    "#);
    let rows = list::find("{\"rows\":[{").unwrap();
    insta::assert_snapshot!(all("{\"rows\":[{\"a\":1}]", Some(rows)).join("\n"), @r#"
    1:9 {"a":1}
    1:17 ! is missing: the file ends inside its list
    "#);
    let text = "[\n {\"a\": \"text, \\\" more\"},\n {\"b\": [1, 2]}\n]\n";
    for end in 1..text.len() - 2 {
        let (pieces, _) = cut(text.as_bytes().get(..end).unwrap(), None, 5).unwrap();
        assert!(pieces.last().unwrap().text.is_err(), "{end}");
    }
}

#[test]
fn long_and_odd_elements_are_refused_by_place() {
    let text = format!("[{{\"a\":\"{}\"}},\n{{\"b\":1}},3,\"x\"]", "y".repeat(2_000));
    insta::assert_snapshot!(all(&text, None).join("\n"), @r#"
    1:1 ! is longer than 1000 bytes
    2:2011 {"b":1}
    2:2019 3
    2:2021 "x"
    "#);
}
