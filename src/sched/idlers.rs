//! Which carriers of a team sleep, and how many look for work: who wakes whom, so that no work lies
//! about while somebody sleeps, and no more are woken than there is work for.
//!
//! One word: a bit for each carrier that *lies*, that is, sleeps or is about to; above them, how many
//! *search*. A carrier is in one of three states:
//!
//! ```text
//!            begin_search              lie_down
//!   at work ─────────────► searching ───────────► lying
//!      ▲          find         │  ▲     choose      │ get_up: woken by something else
//!      └───────────────────────┘  └─────────────────┤
//!      ▲                                            │
//!      └────────────────────────────────────────────┘
//! ```
//!
//! Whoever has published work calls [`choose`](Idlers::choose), which makes a lying carrier a searching
//! one, for the caller to wake; unless somebody searches already, who will find it.
//!
//! No work is forgotten:
//!
//! * The publisher publishes, then reads the word; who lies down writes the word, then looks at the
//!   work once more. Both orders are sequentially consistent, so one of the two sees the other.
//! * A publisher that wakes nobody has seen a searching carrier. Whoever stops searching and was the
//!   last looks once more, if it has found something, and chooses another if there is more; or lies
//!   down, and looks once more then.
//!
//! Only atomics here: a model checker runs this file as it stands (`tests/loom`).

use super::atomic::{AtomicU64, Ordering, settle};

/// The most carriers of a team.
pub(crate) const MOST: usize = 56;

const SEARCHER: u64 = 1 << MOST;
const LYING: u64 = SEARCHER - 1;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Idlers {
    word: AtomicU64,
}

impl Idlers {
    /// All are at work.
    pub(crate) fn new() -> Self {
        Idlers { word: AtomicU64::new(0) }
    }

    /// The caller looks for work.
    pub(crate) fn begin_search(&self) {
        // SeqCst, here and below: see the module documentation.
        self.word.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// The caller has found work, and searches no more. True: nobody does, so if there is more,
    /// another is to be [chosen](Self::choose).
    #[must_use = "the last one that searched looks whether there is more"]
    pub(crate) fn find(&self) -> bool {
        let before = self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
        settle();
        before / SEARCHER == 1
    }

    /// The caller has found nothing, and is about to sleep. It must look once more.
    pub(crate) fn lie_down(&self, who: usize) {
        // Takes one from the upper part, and adds a bit that is not set to the lower one.
        self.word.fetch_sub(SEARCHER - (1 << who), Ordering::SeqCst);
        settle();
    }

    /// The caller lies no more. True: it has been chosen meanwhile, and so searches.
    pub(crate) fn get_up(&self, who: usize) -> bool {
        self.word.fetch_and(!(1 << who), Ordering::SeqCst) & (1 << who) == 0
    }

    /// Work has been published: makes somebody that lies search for it, whom the caller must wake;
    /// unless it will be found anyway.
    #[must_use = "whoever is chosen must be woken"]
    pub(crate) fn choose(&self) -> Option<usize> {
        settle();
        let mut word = self.word.load(Ordering::SeqCst);
        while word / SEARCHER == 0 && word & LYING != 0 {
            let chosen = word.trailing_zeros();
            let next = (word & !(1 << chosen)) + SEARCHER;
            match self.word.compare_exchange(word, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(chosen as usize),
                Err(now) => word = now,
            }
        }
        None
    }
}
