//! Words that several messages share.

use super::Checker;

/// Behind so many errors no more names are suggested: a search through all names each time could
/// take longer than everything else.
const SUGGESTIONS: usize = 100;

impl Checker<'_> {
    /// Of some names, the one that a misspelt one could have been meant to be.
    pub(super) fn suggestion(&self, name: &str, candidates: Vec<String>) -> Option<String> {
        if self.may_suggest() { closest(name, candidates) } else { None }
    }

    /// Whether it is worth while to collect names.
    pub(super) fn may_suggest(&self) -> bool {
        self.silent == 0 && self.diagnostics.counts().0 <= SUGGESTIONS
    }
}

/// Of some names, the one that is most like a misspelt one, if any is close enough.
fn closest(name: &str, candidates: Vec<String>) -> Option<String> {
    // Of equally close ones the first by name, so that messages do not depend on hashing.
    let allowed = (name.chars().count() / 3).min(3);
    candidates
        .into_iter()
        .filter(|candidate| {
            candidate != name && candidate.len().abs_diff(name.len()) <= 4 * allowed
        })
        .map(|candidate| (distance(name, &candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// What is called otherwise in other languages, by what it may be here.
pub(super) fn familiar(name: &str) -> &'static [&'static str] {
    match name {
        "push" | "append" | "Add" | "push_back" | "addLast" => &["add"],
        "size" | "len" | "count" | "Length" | "Count" => &["length", "count"],
        "has" | "includes" | "Contains" | "containsValue" => &["contains", "containsKey"],
        "hasKey" | "ContainsKey" | "exists" => &["containsKey", "contains"],
        "put" | "insert" | "Set" => &["set", "add"],
        "at" | "Get" | "getOrDefault" => &["get"],
        "delete" | "erase" | "pop" | "Remove" => &["removeAt", "remove"],
        "find" | "IndexOf" | "search" => &["indexOf"],
        "substr" | "slice" | "Substring" => &["substring"],
        "lower" | "lowercase" | "toLowerCase" => &["toLower"],
        "upper" | "uppercase" | "toUpperCase" => &["toUpper"],
        "strip" | "Trim" => &["trim"],
        "println" | "puts" | "printf" | "echo" | "log" => &["print"],
        "hashCode" | "GetHashCode" | "hash" => &["getHashCode"],
        "str" | "to_string" | "ToString" => &["toString"],
        "getMessage" | "what" | "Message" => &["message"],
        _ => &[],
    }
}

/// How many insertions, deletions, replacements and swaps of neighbours lead from one text to the
/// other, letters of either case being one step of half the worth: rounded down.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let width = to.len() + 1;
    let mut costs = vec![0; (from.len() + 1) * width];
    for i in 0..=from.len() {
        for j in 0..width {
            let cost = if i == 0 || j == 0 {
                2 * (i + j)
            } else {
                let (a, b) = (from[i - 1], to[j - 1]);
                let replace = match (a == b, a.eq_ignore_ascii_case(&b)) {
                    (true, _) => 0,
                    (false, true) => 1,
                    (false, false) => 2,
                };
                let mut cost = costs[(i - 1) * width + j - 1] + replace;
                cost = cost.min(costs[(i - 1) * width + j] + 2);
                cost = cost.min(costs[i * width + j - 1] + 2);
                if i > 1 && j > 1 && a == to[j - 2] && from[i - 2] == b {
                    cost = cost.min(costs[(i - 2) * width + j - 2] + 2);
                }
                cost
            };
            costs[i * width + j] = cost;
        }
    }
    costs[from.len() * width + to.len()] / 2
}

/// `1 argument`, `2 arguments`.
pub(super) fn count(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

/// A list as a sentence has it: `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_one_that_a_slip_makes() {
        let names = || ["length", "add", "contains"].map(String::from).to_vec();
        assert_eq!(closest("lenght", names()).as_deref(), Some("length"));
        assert_eq!(closest("Add", names()).as_deref(), Some("add"));
        assert_eq!(closest("containsKey", names()).as_deref(), Some("contains"));
        assert_eq!(closest("remove", names()), None);
        assert_eq!(closest("x", ["y".into()].into()), None);
    }
}
