//! Whether there is memory. An allocation that fails aborts the process, and where std is taking a
//! backtrace it never ends: the message about it waits for the lock that the backtrace has.

/// Returns whether so many bytes can be allocated now. Other threads may take them in the next
/// moment.
#[cold]
pub(crate) fn has_room(bytes: usize) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let has_room = room.try_reserve_exact(bytes).is_ok();
    // The compiler may leave out an allocation that is not used.
    std::hint::black_box(&room);
    has_room
}
