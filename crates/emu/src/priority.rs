//! Being first when there is something to do: on a busy machine a thread of
//! ordinary priority waits for whole time slices of the others, 3 ms and more.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id, thread_schedule_policy_param,
};

/// Nice value asked for, of -20 (first) to 19 (last).
const NICE: i32 = -15;

/// Asks for a low nice value for the calling thread; that takes a privilege, and
/// without it the thread runs as it can.
pub(crate) fn ask_to_be_nimble() {
    // On Linux this concerns the calling thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "ordinary priority");
    }
}

/// Asks that the calling thread runs ahead of all threads that are not of real
/// time, or else for the next best; ahead of all of this process if they are of
/// real time (`chrt`). The kernel keeps a share of each processor for the others,
/// so a router that is offered too much cannot lock the machine.
pub(crate) fn ask_to_be_first() {
    let first = match thread_schedule_policy_param(thread_native_id()) {
        // Threads of one priority do not interrupt one another: an end point that
        // computes would hold up the packets of all others.
        Ok((ThreadSchedulePolicy::Realtime(_), given)) => {
            let above = u8::try_from(given.sched_priority + 1).unwrap_or(u8::MAX);
            ThreadPriority::try_from(above).unwrap_or(ThreadPriority::Max)
        }
        _ => ThreadPriority::Min,
    };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    if set_thread_priority_and_policy(thread_native_id(), first, policy).is_err() {
        ask_to_be_nimble();
    }
}
