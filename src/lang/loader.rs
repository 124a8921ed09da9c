//! Where the sources of a program come from: folders, or memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A file that a [`Loader`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// As messages show it.
    pub path: String,
    /// What it contains, or why it cannot be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// Finds the files of packages. A package is given by its parts, which are identifiers.
pub trait Loader {
    /// The files that are the package: none, one, or, which is an error of the program, several.
    fn find(&self, package: &[&str]) -> Vec<Found>;

    /// The qualified names of the packages below a prefix, at any depth.
    fn below(&self, prefix: &[&str]) -> BTreeSet<String>;

    /// A package with nearly the same name, to suggest where there is no such package.
    fn near(&self, package: &[&str]) -> Option<String>;
}

/// No folder holds more packages, as far as `import lib.*;` goes.
const MOST_PACKAGES: usize = 10_000;

/// Looks for `lib/geo.n` below search roots.
#[derive(Clone, Debug)]
pub struct Folders {
    roots: Vec<PathBuf>,
}

impl Folders {
    /// Looks below one folder; the empty path is the current one.
    pub fn new(root: impl Into<PathBuf>) -> Folders {
        Folders { roots: vec![root.into()] }
    }

    /// The folder in which a root unit lies.
    #[cfg(test)]
    pub fn beside(root_unit: &Path) -> Folders {
        Folders::new(root_unit.parent().unwrap_or(Path::new("")))
    }
}

impl Loader for Folders {
    fn find(&self, package: &[&str]) -> Vec<Found> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for root in &self.roots {
            let mut path = root.clone();
            path.extend(package);
            path.set_extension("n");
            if !path.is_file() || !seen.insert(path.canonicalize().ok()) {
                continue;
            }
            let bytes = fs::read(&path).map_err(|error| error.to_string());
            found.push(Found { path: path.display().to_string(), bytes });
        }
        found
    }

    fn below(&self, prefix: &[&str]) -> BTreeSet<String> {
        let mut packages = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for root in &self.roots {
            let mut folder = root.clone();
            folder.extend(prefix);
            // Links may make a circle: each folder is entered once.
            let mut open = vec![(folder, prefix.join("."))];
            while let Some((folder, name)) = open.pop() {
                if !seen.insert(folder.canonicalize().ok()) {
                    continue;
                }
                for (path, part) in entries(&folder) {
                    let package = format!("{name}.{part}");
                    if path.is_dir() {
                        open.push((path, package));
                    } else if packages.len() < MOST_PACKAGES {
                        packages.insert(package);
                    }
                }
            }
        }
        packages
    }

    fn near(&self, package: &[&str]) -> Option<String> {
        let (last, folders) = package.split_last()?;
        for root in &self.roots {
            let mut folder = root.clone();
            folder.extend(folders);
            let names = entries(&folder).into_iter().filter(|(path, _)| path.is_file());
            if let Some(name) = nearest(last, names.map(|(_, name)| name)) {
                return Some([folders, &[name.as_str()]].concat().join("."));
            }
        }
        None
    }
}

/// The files `name.n` and folders `name` in a folder whose names can be parts of a package's.
fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = match path.extension() {
            Some(extension) if extension == "n" && path.is_file() => path.file_stem(),
            Some(_) => None,
            None if path.is_dir() => path.file_name(),
            None => None,
        };
        let name = name.and_then(|name| name.to_str()).filter(|name| is_part(name));
        if let Some(name) = name.map(str::to_owned) {
            found.push((path, name));
        }
    }
    found
}

/// Whether a name can be written in an import.
fn is_part(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// The name that is another one but for the case of its letters, or one letter.
pub(super) fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    let same = names.iter().find(|name| name.eq_ignore_ascii_case(wanted));
    same.or_else(|| names.iter().find(|name| differ_by_one(wanted, name))).cloned()
}

/// Whether one letter added, left out or changed makes one word of the other.
fn differ_by_one(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (rest_a, rest_b) = (&a[same..], &b[same..]);
    let after = |rest: &[u8]| rest.get(1..).map(<[u8]>::to_vec);
    match rest_a.len().abs_diff(rest_b.len()) {
        0 => after(rest_a) == after(rest_b),
        1 if rest_a.len() > rest_b.len() => after(rest_a).as_deref() == Some(rest_b),
        1 => after(rest_b).as_deref() == Some(rest_a),
        _ => false,
    }
}

/// Sources in memory, by the names of their packages.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    packages: BTreeMap<String, Vec<u8>>,
}

impl Memory {
    /// With a package more: `lib.geo`.
    #[must_use]
    pub fn with(mut self, package: &str, text: impl Into<Vec<u8>>) -> Memory {
        self.packages.insert(package.to_owned(), text.into());
        self
    }
}

impl Loader for Memory {
    fn find(&self, package: &[&str]) -> Vec<Found> {
        let bytes = self.packages.get(&package.join("."));
        let path = format!("{}.n", package.join("/"));
        bytes.map(|bytes| Found { path, bytes: Ok(bytes.clone()) }).into_iter().collect()
    }

    fn below(&self, prefix: &[&str]) -> BTreeSet<String> {
        let prefix = format!("{}.", prefix.join("."));
        self.packages.keys().filter(|name| name.starts_with(&prefix)).cloned().collect()
    }

    fn near(&self, package: &[&str]) -> Option<String> {
        nearest(&package.join("."), self.packages.keys().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_one_letter_apart_are_near() {
        for (a, b) in [("helper", "helpr"), ("helpr", "helper"), ("a", "b"), ("geo", "geos")] {
            assert!(differ_by_one(a, b), "{a} {b}");
        }
        for (a, b) in [("geo", "geoid"), ("ab", "ba"), ("geo", "neon")] {
            assert!(!differ_by_one(a, b), "{a} {b}");
        }
    }

    #[test]
    fn folders_hold_packages_by_their_paths() {
        let folder = std::env::temp_dir().join(format!("pirn-loader-{}", std::process::id()));
        fs::create_dir_all(folder.join("lib/deep")).expect("a folder");
        for (path, text) in [
            ("helper.n", "int h() { return 1; }"),
            ("lib/geo.n", ""),
            ("lib/deep/x.n", ""),
            ("lib/not-a-name.n", ""),
            ("lib/notes.txt", ""),
        ] {
            fs::write(folder.join(path), text).expect("a file");
        }
        #[cfg(unix)]
        let _ = std::os::unix::fs::symlink(folder.join("lib"), folder.join("lib/deep/circle"));
        let loader = Folders::beside(&folder.join("main.n"));
        let found = loader.find(&["helper"]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].bytes.as_deref(), Ok(b"int h() { return 1; }".as_slice()));
        assert_eq!(loader.find(&["lib"]), []);
        assert_eq!(loader.find(&["lib", "nothing"]), []);
        let below = loader.below(&["lib"]);
        assert_eq!(below.into_iter().collect::<Vec<_>>(), ["lib.deep.x", "lib.geo"]);
        assert_eq!(loader.near(&["lib", "Geo"]).as_deref(), Some("lib.geo"));
        assert_eq!(loader.near(&["elephant"]), None);
        let twice = Folders { roots: vec![folder.clone(), folder.join("lib/..")] };
        assert_eq!(twice.find(&["helper"]).len(), 1);
        fs::remove_dir_all(&folder).expect("the folder");
    }
}
