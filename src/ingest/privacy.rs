//! Keyed hashes in place of identifiers, and the salt behind them.
//!
//! BLAKE3 in keyed mode, cut to 128 bits (64 for prefix blocks), with one derived key per column:
//! the same name as user and as session gives unrelated hashes. Equal salt and input give equal
//! hashes. The salt stays in its own file, readable by its owner only; a trace carries its id.

use super::error::IngestError;
use crate::domain::convert;
use crate::domain::record::Hash128;
use rand::TryRng;
use std::fs::OpenOptions;
use std::hash::BuildHasher as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Shortest salt, in bytes.
pub const MIN_SALT: usize = 16;

/// What is hashed; each column has its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The gateway's request id.
    Request,
    /// The id that links attempts.
    Trace,
    /// The session.
    Session,
    /// The end user.
    User,
    /// The API key.
    Key,
    /// The tenant or team.
    Tenant,
    /// The name of an input file.
    File,
    /// A block of a prompt.
    Block,
    /// A message, and the messages up to it.
    Message,
}

/// The place of the salt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaltPlace {
    /// A file the user named; it must exist.
    File(PathBuf),
    /// A file that is made when missing.
    Home(PathBuf),
}

/// The salt, ready to hash with.
#[derive(Clone)]
pub struct Hasher {
    columns: [[u8; 32]; 9],
    salt_id: String,
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher").field("salt_id", &self.salt_id).finish_non_exhaustive()
    }
}

impl Hasher {
    /// Derives the keys of all columns from a salt.
    pub fn new(salt: &[u8]) -> Self {
        let key = |column: &str| {
            blake3::derive_key(&format!("tracewright 2026 ingest column {column}"), salt)
        };
        let id = blake3::derive_key("tracewright 2026 ingest salt id", salt);
        let id = id.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let salt_id = format!("{id:016x}");
        let names =
            ["request", "trace", "session", "user", "key", "tenant", "file", "block", "message"];
        Self { columns: names.map(key), salt_id }
    }

    /// Returns the id of the salt: it tells salts apart and reveals nothing of them.
    pub fn salt_id(&self) -> &str {
        &self.salt_id
    }

    /// Returns the keyed hash of an identifier; `None` for an empty one.
    pub fn hash(&self, column: Column, value: &str) -> Option<Hash128> {
        if value.is_empty() {
            return None;
        }
        Some(shortened(blake3::keyed_hash(self.key(column), value.as_bytes())))
    }

    /// Returns the keyed hash of `next` after all that led to `previous`: equal only for equal
    /// sequences. A sequence starts from a hash of the caller's choice.
    pub fn roll(&self, previous: Hash128, next: &[u8]) -> Hash128 {
        let mut hasher = blake3::Hasher::new_keyed(self.key(Column::Message));
        hasher.update(&previous.0).update(next);
        shortened(hasher.finalize())
    }

    /// Returns the keyed 64-bit hash of a block id of a prompt.
    pub fn block(&self, id: u64) -> u64 {
        let digest = blake3::keyed_hash(self.key(Column::Block), &id.to_le_bytes());
        digest.as_bytes().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    }

    /// Returns a hash in hexadecimal.
    pub fn hex(hash: Hash128) -> String {
        format!("{:032x}", u128::from_be_bytes(hash.0))
    }

    fn key(&self, column: Column) -> &[u8; 32] {
        let [request, trace, session, user, key, tenant, file, block, message] = &self.columns;
        match column {
            Column::Request => request,
            Column::Trace => trace,
            Column::Session => session,
            Column::User => user,
            Column::Key => key,
            Column::Tenant => tenant,
            Column::File => file,
            Column::Block => block,
            Column::Message => message,
        }
    }
}

/// Returns the first 128 bits of a hash.
fn shortened(digest: blake3::Hash) -> Hash128 {
    let mut short = [0; 16];
    short.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    Hash128(short)
}

/// Hashes of identifiers that come again and again, such as those of keys and teams.
///
/// A hash takes as long as everything else of a short record; this keeps the last ones, by a place
/// of their text, and gives what [`Hasher::hash`] gives.
#[derive(Clone)]
pub struct Repeated {
    places: Vec<Option<Seen>>,
    mix: foldhash::fast::FixedState,
}

impl std::fmt::Debug for Repeated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The texts are what the hashes hide.
        f.debug_struct("Repeated").finish_non_exhaustive()
    }
}

/// Longest text that is kept, in bytes.
const MAX_SEEN: usize = 64;
/// Texts that are kept.
const PLACES: usize = 1_024;

#[derive(Clone)]
struct Seen {
    column: Column,
    length: usize,
    text: [u8; MAX_SEEN],
    hash: Hash128,
}

impl Default for Repeated {
    fn default() -> Self {
        Self { places: vec![None; PLACES], mix: foldhash::fast::FixedState::default() }
    }
}

impl Repeated {
    /// Returns the keyed hash of an identifier; `None` for an empty one.
    pub fn hash(&mut self, hasher: &Hasher, column: Column, value: &str) -> Option<Hash128> {
        let bytes = value.as_bytes();
        if bytes.len() > MAX_SEEN {
            return hasher.hash(column, value);
        }
        let mixed = self.mix.hash_one(bytes) % convert::count(PLACES);
        let Some(place) = convert::index(mixed).and_then(|at| self.places.get_mut(at)) else {
            return hasher.hash(column, value);
        };
        match place {
            Some(seen) if seen.column == column && seen.text.get(..seen.length) == Some(bytes) => {
                Some(seen.hash)
            }
            _ => {
                let hash = hasher.hash(column, value)?;
                let mut text = [0; MAX_SEEN];
                text.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                *place = Some(Seen { column, length: bytes.len(), text, hash });
                Some(hash)
            }
        }
    }
}

/// Reads the salt, or makes one in the user's configuration.
///
/// Returns the hasher and whether the salt is new.
///
/// # Errors
///
/// If the file cannot be read or made, or holds fewer than [`MIN_SALT`] bytes.
pub fn load(place: &SaltPlace) -> Result<(Hasher, bool), IngestError> {
    let (path, may_make) = match place {
        SaltPlace::File(path) => (path, false),
        SaltPlace::Home(path) => (path, true),
    };
    match std::fs::read(path) {
        Ok(bytes) => Ok((hasher_of(path, &bytes)?, false)),
        Err(error) if may_make && error.kind() == ErrorKind::NotFound => {
            let salt = make(path).map_err(|source| salt_error(path, "made", source))?;
            Ok((hasher_of(path, salt.as_bytes())?, true))
        }
        Err(source) => Err(salt_error(path, "read", source)),
    }
}

fn salt_error(path: &Path, action: &'static str, source: std::io::Error) -> IngestError {
    IngestError::Salt { path: path.to_owned(), action, source }
}

fn hasher_of(path: &Path, bytes: &[u8]) -> Result<Hasher, IngestError> {
    let salt = bytes.trim_ascii();
    if salt.len() < MIN_SALT {
        return Err(IngestError::ShortSalt { path: path.to_owned(), found: salt.len() });
    }
    Ok(Hasher::new(salt))
}

/// Makes a salt of 256 random bits, in hexadecimal, readable by its owner only.
fn make(path: &Path) -> std::io::Result<String> {
    let mut halves = [0_u128; 2];
    for half in &mut halves {
        let mut bytes = [0_u8; 16];
        rand::rngs::SysRng.try_fill_bytes(&mut bytes).map_err(std::io::Error::other)?;
        *half = u128::from_be_bytes(bytes);
    }
    let [first, second] = halves;
    let text = format!("{first:032x}{second:032x}");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_depend_on_salt_and_column_only() {
        let (one, two) = (Hasher::new(b"salt number one!"), Hasher::new(b"salt number two!"));
        let hash = one.hash(Column::User, "alice").unwrap();
        assert_eq!(one.clone().hash(Column::User, "alice"), Some(hash));
        assert_ne!(two.hash(Column::User, "alice"), Some(hash));
        assert_ne!(one.hash(Column::Session, "alice"), Some(hash));
        assert_ne!(one.hash(Column::User, "bob"), Some(hash));
        assert_ne!(one.block(1), one.block(2));
        assert_ne!(one.block(1), two.block(1));
        assert_eq!(one.hash(Column::User, ""), None);
        assert_ne!(one.salt_id(), two.salt_id());
        assert_eq!(one.salt_id().len(), 16);
    }

    #[test]
    fn a_sequence_has_its_own_hash() {
        let hasher = Hasher::new(b"salt number one!");
        let start = Hash128([0; 16]);
        let of = |parts: &[&str]| parts.iter().fold(start, |h, p| hasher.roll(h, p.as_bytes()));
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
        assert_ne!(of(&["a", "b"]), of(&["ab"]));
        assert_ne!(of(&["a"]), Hasher::new(b"salt number two!").roll(start, b"a"));
    }

    #[test]
    fn repeated_hashes_are_the_same() {
        let hasher = Hasher::new(b"0123456789abcdef");
        let mut repeated = Repeated::default();
        let long = "x".repeat(MAX_SEEN + 1);
        // More texts than places, so that they drive each other out.
        let mut texts: Vec<String> = (0..3_000).map(|n| format!("key-{}", n % 2_500)).collect();
        texts.extend(["", "a", "a\0", &long, long.strip_prefix('x').unwrap()].map(str::to_owned));
        for text in &texts {
            for column in [Column::Key, Column::User, Column::Key] {
                let hash = hasher.hash(column, text);
                assert_eq!(repeated.hash(&hasher, column, text), hash, "{text}");
            }
        }
        assert!(!format!("{repeated:?}").contains("key"));
    }

    #[test]
    fn the_bytes_never_change() {
        // Traces of one salt are joined across versions: a change here is a break of format.
        let hasher = Hasher::new(b"0123456789abcdef");
        let hash = Hasher::hex(hasher.hash(Column::Session, "s-1").unwrap());
        insta::assert_snapshot!(format!("{hash} {} {}", hasher.salt_id(), hasher.block(7)), @"ac4ea3d4bd267a527381eb17fce7be5f 10af579c1fa885e3 3496725847324034785");
    }

    #[test]
    fn a_salt_is_made_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let place = SaltPlace::Home(folder.path().join("deep").join("salt"));
        let (first, is_new) = load(&place).unwrap();
        assert!(is_new);
        let (again, is_new) = load(&place).unwrap();
        assert!(!is_new);
        assert_eq!(first.salt_id(), again.salt_id());
        let path = folder.path().join("deep").join("salt");
        let file = load(&SaltPlace::File(path.clone())).unwrap().0;
        assert_eq!(file.salt_id(), first.salt_id());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_named_salt_must_exist_and_be_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("salt");
        let error = load(&SaltPlace::File(path.clone())).unwrap_err();
        assert!(error.to_string().ends_with("salt: the salt file cannot be read"), "{error}");
        std::fs::write(&path, "short\n").unwrap();
        let error = load(&SaltPlace::File(path)).unwrap_err();
        assert!(
            error.to_string().ends_with("salt: expected a salt of at least 16 bytes, found 5"),
            "{error}"
        );
    }
}
