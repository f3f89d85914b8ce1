//! The word that somebody may have meant. Called where a word is not known. Never decides that it
//! was meant.

/// Of the words that are known, the one that differs least, in at most `most` letters.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Option<&'a str> {
    let distances = known.into_iter().map(|other| (distance(word, other), other));
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    nearest
        .filter(|(distance, _)| *distance <= most)
        .map(|(_, other)| other)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_near_words_are_offered() {
        let known = ["server.listen", "server.public_url"];
        assert_eq!(nearest("server.listn", known, 3), Some("server.listen"));
        assert_eq!(nearest("sandbox.image", known, 3), None);
        assert_eq!(nearest("anything", [], 3), None);
    }
}
