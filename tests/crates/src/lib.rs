//! Crates that know nothing of pirn: written for sockets that block and threads that wait, they run
//! on pirn's sockets in fibers, because those have std's names, traits and errors.
//!
//! There is nothing in here; see the tests. They are in a package of their own, with a lock file of its
//! own, so that whoever builds pirn, or runs its tests, never builds the fifty crates that these need.
