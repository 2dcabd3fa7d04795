//! Answers are read as the library reads them.

use proptest::prelude::*;

use super::*;

/// Answers of all kinds, as they are sent.
fn sent() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(any::<u8>(), 0..20);
    let single = prop_oneof![
        any::<i64>().prop_map(|it| format!(":{it}\r\n").into_bytes()),
        "[ -~]{0,10}".prop_map(|it| format!("+{it}\r\n").into_bytes()),
        "[A-Z]{1,8}( [ -~]{0,10})?".prop_map(|it| format!("-{it}\r\n").into_bytes()),
        text.prop_map(|it| [format!("${}\r\n", it.len()).as_bytes(), &it, b"\r\n"].concat()),
        prop::sample::select(vec![
            "+OK\r\n",
            "_\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "#t\r\n",
            "#f\r\n",
            ",1.5\r\n",
            "(123456789012345678901234567890\r\n",
            "=7\r\ntxt:abc\r\n",
            "!5\r\nERR x\r\n",
        ])
        .prop_map(|it| it.as_bytes().to_vec()),
    ];
    single.prop_recursive(3, 30, 5, |inner| {
        let kinds = prop::sample::select(vec![('*', 1), ('~', 1), ('%', 2), ('>', 1)]);
        (kinds, prop::collection::vec(inner, 0..6)).prop_map(|((kind, each), mut values)| {
            let count = values.len() / each;
            values.truncate(count * each);
            let mut text = format!("{kind}{count}\r\n").into_bytes();
            text.extend(values.concat());
            text
        })
    })
}

proptest! {
    #[test]
    fn an_answer_is_what_the_library_reads_however_it_comes(
        bytes in sent(),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        // A push without a kind is none.
        let Ok(expected) = parse_redis_value(&bytes) else {
            return Ok(());
        };
        let whole = [bytes.as_slice(), &rest].concat();
        let read = answer(&whole).unwrap();
        prop_assert_eq!(read, Some((expected, bytes.len())));
        for end in 0..bytes.len() {
            prop_assert_eq!(answer(&bytes[..end]).unwrap(), None);
        }
    }

    #[test]
    fn what_is_no_answer_is_refused_or_waited_for(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        if let Ok(Some((_, read))) = answer(&bytes) {
            prop_assert!(read <= bytes.len());
        }
    }
}

#[test]
fn what_is_no_answer_of_redis_is_an_error() {
    let deep = "*1\r\n".repeat(200);
    for text in [
        "what is this\r\n",
        "HTTP/1.1 400",
        ":x\r\n",
        ":1\n",
        "$3\r\nabcdef\r\n",
        "$-2\r\n",
        "$999999999999\r\n",
        "*-2\r\n",
        "%1\r\nx\r\n",
        &deep,
    ] {
        assert!(answer(text.as_bytes()).is_err(), "{text:?}");
    }
    assert!(answer(b"+\xff\r\n").is_err());
}

#[test]
fn a_command_is_an_array_of_texts() {
    let mut out = Vec::new();
    put(&mut out, [b"SET", b"", b"\r\n\xff"]);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\n\r\n\xff\r\n");
    for length in [9, 10, 19, 99, 100, 1234] {
        let word = "x".repeat(length);
        let mut out = Vec::new();
        put_word(&mut out, word.as_bytes());
        assert_eq!(out, format!("${length}\r\n{word}\r\n").as_bytes());
    }
}
