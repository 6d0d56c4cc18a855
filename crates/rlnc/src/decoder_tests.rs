use super::*;
use crate::Encoder;

const SYMBOL_LEN: usize = 20;
const FIRST: SymbolId = SymbolId(96);

/// Content of symbol `index`: of many lengths, some empty.
fn content(index: u8) -> Vec<u8> {
    vec![index; usize::from(index) * 7 % (SYMBOL_LEN - 1)]
}

fn encoder(count: u8) -> Encoder {
    let mut encoder = Encoder::new(FIRST, SYMBOL_LEN);
    for index in 0..count {
        encoder.push(&content(index)).expect("it fits");
    }
    encoder
}

fn decoder() -> Decoder {
    Decoder::new(FIRST, SYMBOL_LEN)
}

fn coded(encoder: &Encoder, repair: Repair, count: u8) -> Vec<u8> {
    let mut payload = vec![0; SYMBOL_LEN];
    let len = encoder
        .encode(repair, count, &mut payload)
        .expect("a repair");
    payload.truncate(len);
    payload
}

fn insert(decoder: &mut Decoder, encoder: &Encoder, repair: Repair, count: u8) -> Insertion {
    let payload = coded(encoder, repair, count);
    decoder
        .insert_coded(repair, count, &payload)
        .expect("an honest packet")
}

fn insert_plain(decoder: &mut Decoder, index: u8) -> Insertion {
    decoder
        .insert_systematic(index, &content(index))
        .expect("an honest packet")
}

fn recovered(decoder: &mut Decoder) -> Vec<u8> {
    core::iter::from_fn(|| decoder.next_recovered()).collect()
}

#[test]
fn a_lost_symbol_is_recovered_by_one_coded_packet() {
    let (encoder, mut decoder) = (encoder(4), decoder());
    for index in [0, 1, 3] {
        assert_eq!(insert_plain(&mut decoder, index), Insertion::Innovative);
    }
    assert_eq!(decoder.missing(4), 1);
    assert!(!decoder.is_complete(4));
    insert(&mut decoder, &encoder, Repair::cauchy(0), 4);
    assert_eq!(recovered(&mut decoder), [2]);
    assert_eq!(decoder.content(2), Some(&content(2)[..]));
    assert!(decoder.is_complete(4));
    assert_eq!(decoder.missing(4), 0);
}

#[test]
fn the_rank_is_known_before_anything_can_be_recovered() {
    let (encoder, mut decoder) = (encoder(5), decoder());
    for index in 0..4 {
        insert(&mut decoder, &encoder, Repair::cauchy(index), 5);
        assert_eq!(u16::from(decoder.rank()), index + 1);
        assert_eq!(decoder.next_recovered(), None);
    }
    insert(&mut decoder, &encoder, Repair::cauchy(4), 5);
    assert_eq!(recovered(&mut decoder), [0, 1, 2, 3, 4]);
}

#[test]
fn a_symbol_that_comes_late_sets_the_others_free() {
    let (encoder, mut decoder) = (encoder(4), decoder());
    insert(&mut decoder, &encoder, Repair::cauchy(0), 4);
    insert(&mut decoder, &encoder, Repair::cauchy(1), 4);
    insert_plain(&mut decoder, 0);
    assert_eq!((decoder.rank(), recovered(&mut decoder)), (3, vec![]));
    insert_plain(&mut decoder, 3);
    assert_eq!((decoder.rank(), recovered(&mut decoder)), (4, vec![1, 2]));
}

#[test]
fn a_symbol_that_comes_after_its_recovery_is_dependent() {
    let (encoder, mut decoder) = (encoder(2), decoder());
    insert_plain(&mut decoder, 0);
    insert(&mut decoder, &encoder, Repair::cauchy(0), 2);
    assert_eq!(insert_plain(&mut decoder, 1), Insertion::Dependent);
    assert_eq!(insert_plain(&mut decoder, 0), Insertion::Dependent);
    let repair = Repair::cauchy(1);
    assert_eq!(
        insert(&mut decoder, &encoder, repair, 2),
        Insertion::Dependent
    );
    assert_eq!(decoder.rank(), 2);
    assert_eq!(recovered(&mut decoder), [1]);
}

#[test]
fn a_coded_packet_sent_twice_counts_once() {
    let (encoder, mut decoder) = (encoder(3), decoder());
    let repair = Repair::uniform(4);
    assert_eq!(
        insert(&mut decoder, &encoder, repair, 3),
        Insertion::Innovative
    );
    assert_eq!(
        insert(&mut decoder, &encoder, repair, 3),
        Insertion::Dependent
    );
    assert_eq!(decoder.rank(), 1);
}

#[test]
fn a_packet_over_an_open_generation_recovers_before_the_rest_is_there() {
    let (encoder, mut decoder) = (encoder(6), decoder());
    insert_plain(&mut decoder, 0);
    insert_plain(&mut decoder, 2);
    // Something over the whole that cannot be used yet.
    insert(&mut decoder, &encoder, Repair::uniform(0), 6);
    insert(&mut decoder, &encoder, Repair::uniform(1), 3);
    assert_eq!(recovered(&mut decoder), [1]);
    assert_eq!(decoder.content(1), Some(&content(1)[..]));
    assert_eq!((decoder.rank(), decoder.missing(6)), (4, 2));
    assert_eq!(decoder.count_seen(), 6);
    insert_plain(&mut decoder, 4);
    insert_plain(&mut decoder, 3);
    assert_eq!(recovered(&mut decoder), [5]);
    assert!((0..6).all(|index| decoder.content(index) == Some(&content(index)[..])));
}

#[test]
fn payloads_kept_are_as_many_as_dofs_that_are_no_symbols_yet() {
    let (encoder, mut decoder) = (encoder(40), decoder());
    for (index, covered) in (0..).zip([3, 3, 3, 10, 10, 10, 40, 40, 40]) {
        insert(&mut decoder, &encoder, Repair::uniform(index), covered);
        let kept = decoder.rank() - decoder.known.count() as u8;
        assert_eq!(decoder.payloads.len(), usize::from(kept));
        assert_eq!(decoder.rows.len(), usize::from(kept));
    }
    assert_eq!(recovered(&mut decoder), [0, 1, 2]);
    for index in [4, 6, 8, 9, 20] {
        insert_plain(&mut decoder, index);
        let kept = decoder.rank() - decoder.known.count() as u8;
        assert_eq!(decoder.payloads.len(), usize::from(kept));
        assert_eq!(decoder.rows.len(), usize::from(kept));
    }
    assert_eq!(recovered(&mut decoder), [3, 5, 7]);
    assert_eq!(decoder.payloads.len(), 3);
}

#[test]
fn the_largest_generation_is_recovered_from_coded_packets_alone() {
    let (encoder, mut decoder) = (encoder(COUNT_MAX), decoder());
    let mut index = 0;
    while decoder.missing(COUNT_MAX) > 0 {
        insert(&mut decoder, &encoder, Repair::uniform(index), COUNT_MAX);
        index += 1;
    }
    assert!(index < 260, "{index}");
    assert!(decoder.is_complete(COUNT_MAX));
    assert!((0..COUNT_MAX).all(|index| decoder.content(index) == Some(&content(index)[..])));
}

#[test]
fn a_generation_of_the_same_size_takes_no_new_memory() {
    let (encoder, mut decoder) = (encoder(8), decoder());
    let mut pooled = Vec::new();
    for _ in 0..3 {
        for index in 0..8 {
            insert(&mut decoder, &encoder, Repair::uniform(index), 8);
        }
        decoder.reset(FIRST, SYMBOL_LEN);
        assert_eq!(decoder.rank(), 0);
        assert_eq!(decoder.content(0), None);
        pooled.push(decoder.pool.free_count());
    }
    assert_eq!(pooled[0], pooled[1]);
    assert_eq!(pooled[1], pooled[2]);
}

#[test]
fn slots_too_small_for_the_next_generation_are_let_go() {
    let mut decoder = decoder();
    insert_plain(&mut decoder, 1);
    decoder.reset(FIRST, SYMBOL_LEN + 1);
    assert_eq!(decoder.pool.free_count(), 0);
    let longer = [1; SYMBOL_LEN - 1];
    assert_eq!(
        decoder.insert_systematic(0, &longer),
        Ok(Insertion::Innovative)
    );
}

#[test]
fn lengths_are_checked_to_the_byte() {
    let mut decoder = decoder();
    let room = SYMBOL_LEN - LEN_PREFIX_BYTES;
    assert_eq!(
        decoder.insert_systematic(0, &vec![1; room + 1]),
        Err(InsertError::TooLong {
            len: room + 1,
            len_max: room
        })
    );
    assert_eq!(
        decoder.insert_systematic(0, &vec![1; room]),
        Ok(Insertion::Innovative)
    );
    let repair = Repair::cauchy(0);
    assert_eq!(
        decoder.insert_coded(repair, 2, &[0; SYMBOL_LEN + 1]),
        Err(InsertError::TooLong {
            len: SYMBOL_LEN + 1,
            len_max: SYMBOL_LEN
        })
    );
    assert_eq!(
        decoder.insert_coded(repair, 2, &[0; SYMBOL_LEN - 1]),
        Err(InsertError::TooShort {
            len: SYMBOL_LEN - 1,
            needed: SYMBOL_LEN
        })
    );
    assert_eq!(decoder.rank(), 1);
}

#[test]
fn a_payload_shorter_than_a_length_is_refused() {
    for len in 0..=2 {
        let result = decoder().insert_coded(Repair::cauchy(1), 3, &vec![0; len]);
        let expected = match len {
            2 => Ok(Insertion::Innovative),
            _ => Err(InsertError::TooShort { len, needed: 2 }),
        };
        assert_eq!(result, expected);
    }
}

#[test]
fn what_names_no_packet_is_refused() {
    let mut decoder = decoder();
    let payload = [0; SYMBOL_LEN];
    assert_eq!(
        decoder.insert_systematic(255, &[]),
        Err(InsertError::IndexOutOfRange { index: 255 })
    );
    assert_eq!(
        decoder.insert_systematic(254, &[]),
        Ok(Insertion::Innovative)
    );
    assert_eq!(
        decoder.insert_coded(Repair::uniform(0), 0, &payload),
        Err(InsertError::CoversNothing)
    );
    assert_eq!(
        decoder.insert_coded(Repair::cauchy(253), 3, &payload),
        Err(InsertError::NoRepair(NoRepair::OutOfRange {
            index: 253,
            count: 3
        }))
    );
    assert_eq!(
        decoder.insert_combination(&[1; 256], &payload),
        Err(InsertError::TooLong {
            len: 256,
            len_max: 255
        })
    );
    assert_eq!(
        decoder.insert_combination(&[0; 9], &payload),
        Ok(Insertion::Dependent)
    );
    assert_eq!(decoder.rank(), 1);
}

#[test]
fn a_recovered_length_beyond_its_room_is_an_error_that_stays() {
    let mut decoder = decoder();
    decoder.insert_systematic(0, b"ab").expect("it fits");
    // The sum of `0 2 a b` and `0 9 …` in ten bytes: nine do not fit behind 0 9.
    let error = Err(InsertError::BadSymbol { index: 1 });
    let sum = [0, 2 ^ 9, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(decoder.insert_coded(Repair::cauchy(0), 2, &sum), error);
    assert_eq!(decoder.content(1), None);
    assert!(!decoder.is_known(1));
    assert_eq!(decoder.next_recovered(), None);
    assert_eq!(decoder.insert_systematic(2, b"c"), error);
    assert_eq!(decoder.insert_coded(Repair::cauchy(0), 2, &[0; 4]), error);
    decoder.reset(FIRST, SYMBOL_LEN);
    assert_eq!(
        decoder.insert_systematic(2, b"c"),
        Ok(Insertion::Innovative)
    );
}

#[test]
fn a_recovered_symbol_with_bytes_behind_its_content_is_an_error() {
    let mut decoder = decoder();
    let payload = [0, 1, 7, 0, 0, 1];
    assert_eq!(
        decoder.insert_combination(&[1], &payload),
        Err(InsertError::BadSymbol { index: 0 })
    );
    decoder.reset(FIRST, SYMBOL_LEN);
    let honest = [0, 1, 7, 0, 0, 0];
    assert_eq!(
        decoder.insert_combination(&[1], &honest),
        Ok(Insertion::Innovative)
    );
    assert_eq!(decoder.content(0), Some(&[7][..]));
}

#[test]
fn a_symbol_longer_than_payloads_that_cover_it_does_no_harm() {
    let mut decoder = decoder();
    decoder
        .insert_coded(Repair::cauchy(0), 3, &[0, 0])
        .expect("taken");
    decoder
        .insert_coded(Repair::cauchy(1), 3, &[0, 0])
        .expect("taken");
    let result = decoder.insert_systematic(2, &[5; 18]);
    assert!(
        matches!(result, Err(InsertError::BadSymbol { .. })),
        "{result:?}"
    );
}

#[test]
fn symbols_too_short_for_a_length_take_nothing() {
    for symbol_len in 0..2 {
        let mut decoder = Decoder::new(FIRST, symbol_len);
        assert_eq!(
            decoder.insert_systematic(0, &[]),
            Err(InsertError::TooLong { len: 0, len_max: 0 })
        );
        assert_eq!(
            decoder.insert_coded(Repair::cauchy(0), 1, &vec![0; symbol_len]),
            Err(InsertError::TooShort {
                len: symbol_len,
                needed: 2
            })
        );
    }
}
