//! The overview of all coordinators together.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use serde::Deserialize;
use serde_json::{Value, json};

/// Names that most calls wait for.
const MOST_WAITED: usize = 5;

/// Whose charts are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Charted {
    /// Those of the coordinator with this name; empty, or not there: those of all together.
    coordinator: String,
}

/// What each coordinator says, this one first, without a name if there are no others.
pub(super) fn together(
    charted: &Charted,
    own_name: Option<&str>,
    own: Value,
    others: Vec<(String, Value)>,
) -> Value {
    let mut all = vec![(own_name.unwrap_or_default().to_owned(), own)];
    all.extend(others);
    let states = all.iter().map(|(name, said)| {
        let mut state = match &said["coordinator"] {
            state @ Value::Object(_) => state.clone(),
            _ => json!({}),
        };
        state["coordinator"] = Some(&name[..]).filter(|name| !name.is_empty()).into();
        state
    });
    let chosen = all.iter().find(|(name, _)| *name == charted.coordinator);
    let charts = match chosen {
        Some((_, said)) => said["history"].clone(),
        None => all
            .iter()
            .fold(Value::Null, |sum, (_, said)| added(sum, &said["history"])),
    };
    let of_all = json!({
        "coordinator": chosen.map(|(name, _)| name).filter(|name| !name.is_empty()),
        "banners": banners(&all),
        "mostWaitedFor": most_waited(all.iter().map(|(_, said)| &said["mostWaitedFor"])),
        "history": charts,
    });
    let own = &all[0].1;
    json!({
        "coordinators": states.collect::<Vec<_>>(),
        "banners": own["banners"],
        "mostWaitedFor": most_waited(std::iter::once(&own["mostWaitedFor"])),
        "history": own["history"],
        "fleet": of_all,
    })
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text<'a>(it: &'a Value, field: &str) -> &'a str {
    it[field].as_str().unwrap_or_default()
}

/// What several say is one banner with their names.
fn banners(all: &[(String, Value)]) -> Vec<Value> {
    let mut banners: Vec<Value> = Vec::new();
    let mut places = HashMap::new();
    for (name, said) in all {
        for banner in entries(&said["banners"]) {
            let key = (text(banner, "kind"), text(banner, "text"));
            let place = *places.entry(key).or_insert(banners.len());
            if place == banners.len() {
                banners.push(json!({ "kind": key.0, "text": key.1, "coordinators": [] }));
            }
            if let (false, Some(names)) = (
                name.is_empty(),
                banners[place]["coordinators"].as_array_mut(),
            ) {
                names.push(name.as_str().into());
            }
        }
    }
    banners
}

/// The names that most calls wait for: of each the calls are summed up.
fn most_waited<'a>(lists: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut found = BTreeMap::new();
    for it in lists.flat_map(entries) {
        let number = |field: &str| it[field].as_u64().unwrap_or_default();
        let (waiters, longest) = found
            .entry((text(it, "name"), text(it, "kind")))
            .or_insert((0, 0));
        *waiters += number("waiterCount");
        *longest = number("longestWaitMs").max(*longest);
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, (waiters, _))| Reverse(*waiters));
    let most = found.into_iter().take(MOST_WAITED);
    let shown = most.map(|((name, kind), (waiters, longest))| {
        json!({ "name": name, "kind": kind, "waiterCount": waiters, "longestWaitMs": longest })
    });
    shown.collect()
}

/// Charts with those of another coordinator added: counts are summed up, of times the longest is
/// kept. Their steps begin up to a step apart.
fn added(mut sum: Value, more: &Value) -> Value {
    let Some(rings) = sum.as_array_mut() else {
        return more.clone();
    };
    for (ring, more) in rings.iter_mut().zip(entries(more)) {
        let most = ring["steps"].as_u64().unwrap_or_default();
        for (line, values) in ring.as_object_mut().into_iter().flatten() {
            if let Some(values) = values.as_array_mut() {
                let more: Vec<_> = entries(&more[line]).collect();
                add(values, &more, line.ends_with("Ms"), most);
            }
        }
    }
    sum
}

/// Adds the values of another coordinator to those of the same steps. The newest comes last.
fn add(values: &mut Vec<Value>, more: &[&Value], is_time: bool, most: u64) {
    let count = more.len().min(usize::try_from(most).unwrap_or_default());
    let lacking = count.saturating_sub(values.len());
    values.splice(0..0, std::iter::repeat_n(Value::Null, lacking));
    for (value, more) in values.iter_mut().rev().zip(more.iter().rev()) {
        let both = match (value.as_f64(), more.as_f64()) {
            (Some(value), Some(more)) if is_time => Some(value.max(more)),
            (Some(value), Some(more)) => Some(value + more),
            (value, more) => value.or(more),
        };
        *value = both.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(banners: &Value, waited: &Value, ring: &Value) -> Value {
        json!({
            "coordinator": { "isReady": true },
            "banners": banners,
            "mostWaitedFor": waited,
            "history": [ring],
        })
    }

    fn waited(name: &str, waiters: u32, ms: u32) -> Value {
        json!({ "name": name, "kind": "lock", "waiterCount": waiters, "longestWaitMs": ms })
    }

    fn two(charted: &str) -> Value {
        let evict = json!({ "kind": "mayEvict", "text": "e" });
        let drains = json!({ "kind": "draining", "text": "d" });
        let here = said(
            &json!([evict]),
            &json!([waited("a", 2, 9), waited("b", 1, 5)]),
            &json!({ "steps": 3, "lost": [1.0, 2.0], "waitP99Ms": [null, 7.0] }),
        );
        let there = said(
            &json!([evict, drains]),
            &json!([waited("b", 4, 3)]),
            &json!({ "steps": 3, "lost": [8.0, 1.0, 4.0, 1.0], "waitP99Ms": [2.0, 9.0, 3.0] }),
        );
        let charted = Charted {
            coordinator: charted.to_owned(),
        };
        let others = vec![("there".to_owned(), there)];
        together(&charted, Some("here"), here, others)
    }

    #[test]
    fn what_several_say_is_one_banner_and_what_they_count_is_summed_up() {
        let page = two("");
        let of_all = &page["fleet"];
        let expected = json!([
            { "kind": "mayEvict", "text": "e", "coordinators": ["here", "there"] },
            { "kind": "draining", "text": "d", "coordinators": ["there"] },
        ]);
        assert_eq!(of_all["banners"], expected);
        let expected = json!([waited("b", 5, 5), waited("a", 2, 9)]);
        assert_eq!(of_all["mostWaitedFor"], expected);
        let ring = json!({ "steps": 3, "lost": [1.0, 5.0, 3.0], "waitP99Ms": [2.0, 9.0, 7.0] });
        assert_eq!(of_all["history"], json!([ring]));
        assert_eq!(page["coordinators"][1]["coordinator"], "there");
        // What was there before is still that of this coordinator.
        assert_eq!(page["banners"].as_array().unwrap().len(), 1);
        assert_eq!(page["history"][0]["lost"], json!([1.0, 2.0]));
        assert_eq!(page["mostWaitedFor"][0], waited("a", 2, 9));
    }

    #[test]
    fn the_charts_of_one_coordinator_are_its_own() {
        let charts = &two("there")["fleet"]["history"][0];
        assert_eq!(charts["lost"], json!([8.0, 1.0, 4.0, 1.0]));
    }

    #[test]
    fn alone_a_coordinator_has_no_name() {
        let banner = json!([{ "kind": "draining", "text": "d" }]);
        let own = said(&banner, &json!([]), &json!({ "lost": [1] }));
        let page = together(&Charted::default(), None, own, Vec::new());
        assert_eq!(page["fleet"]["banners"][0]["coordinators"], json!([]));
        assert_eq!(page["coordinators"][0]["coordinator"], Value::Null);
        assert_eq!(page["fleet"]["history"], page["history"]);
    }
}
