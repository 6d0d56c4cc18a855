//! What the next token of a path pays for: views for the scheduler, and its
//! answer.

use ctcp_units::Instant;

use super::Connection;
use crate::block::PATHS_MAX;
use crate::path::{Path, PathState};
use crate::schedule::{Copied, PathView, Scheduler, auto, is_shortest_free, mp12, symbols_ahead};

/// What the next token pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// A combination of this block.
    Coded(u64),
    /// A new symbol.
    Systematic,
    /// A symbol that went out on another path.
    Copy(Copied),
    /// Nothing to send, or nothing that may be sent.
    Nothing,
}

/// Views of all paths, in the order of the connection's.
pub(super) struct Views {
    list: [PathView; PATHS_MAX],
    len: usize,
}

impl Views {
    fn all(&self) -> &[PathView] {
        &self.list[..self.len]
    }
}

/// Indices of paths in some order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    list: [u8; PATHS_MAX],
    len: usize,
}

impl Order {
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.list.into_iter().take(self.len).map(usize::from)
    }

    /// The path that control frames take.
    pub(super) const fn lead(&self) -> usize {
        self.list[0] as usize
    }
}

impl Connection {
    fn views(&self, now: Instant) -> Views {
        let usable = self.usable_paths();
        let mut views = Views {
            list: [self.paths[0].view(now, usable[0]); PATHS_MAX],
            len: self.paths.len(),
        };
        let seen = self.paths.iter().zip(usable);
        for ((path, is_usable), view) in seen.zip(&mut views.list).skip(1) {
            *view = path.view(now, is_usable);
        }
        views
    }

    /// Paths in the order in which they are offered what is to be sent: those
    /// that deliver first come first.
    pub(super) fn path_order(&self, now: Instant) -> Order {
        let mut order = Order {
            list: core::array::from_fn(|index| index as u8),
            len: self.paths.len(),
        };
        if order.len > 1 {
            let views = self.views(now);
            order.list[..order.len].sort_by(|one, other| {
                let key = |index: u8| {
                    let index = usize::from(index);
                    let view = &views.list[index];
                    let path = &self.paths[index];
                    let rank = (path.is_blocked, !view.is_usable, path.state());
                    (rank, view.delivery_seconds())
                };
                let (one, other) = (key(*one), key(*other));
                one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
            });
        }
        order
    }

    /// Sets how far new symbols may run ahead of the oldest block.
    pub(super) fn fit_span(&mut self, now: Instant) {
        let views = self.views(now);
        let usable = views.all().iter().filter(|path| path.is_usable);
        let flight = usable.map(|path| path.tokens).sum();
        self.sender
            .set_span(symbols_ahead(views.all().iter()), flight);
    }

    /// Whether a token would find something to pay for.
    pub(super) fn has_symbols_to_send(&self) -> bool {
        self.sender.oldest_ready().is_some()
            || self.streams.can_fill() && self.sender.has_room_for_symbol(self.content_max())
    }

    /// The path is silent and others are not.
    pub(super) fn is_spared(&self, index: usize) -> bool {
        let is_active = |path: &Path| path.state() == PathState::Active;
        self.paths.len() > 1 && !is_active(&self.paths[index]) && self.paths.iter().any(is_active)
    }

    /// Packets of new data that wait; without end while the application has more
    /// than fits its buffers.
    fn backlog(&self, content_max: usize) -> f64 {
        let bytes = self.streams.bytes_buffered_send();
        if bytes * 2 >= self.config.streams.stream_send_buffer_max {
            return f64::INFINITY;
        }
        bytes as f64 / content_max.max(1) as f64
    }

    /// What a token of path `index` pays for now, as things stand.
    pub(super) fn pick(&self, now: Instant, index: usize, content_max: usize) -> Choice {
        let has_new = self.streams.can_fill() && self.sender.has_room_for_symbol(content_max);
        let oldest = self.sender.oldest_ready();
        if self.paths.len() == 1 {
            return match oldest {
                Some(block) => Choice::Coded(block),
                None if has_new => Choice::Systematic,
                None => Choice::Nothing,
            };
        }
        let is_exhausted = oldest.is_none() && !has_new;
        let scheduler = self.config.scheduler;
        if is_exhausted && !matches!(scheduler, Scheduler::Mp12 | Scheduler::Redundant) {
            return Choice::Nothing;
        }
        let views = self.views(now);
        let paths = views.all();
        if paths[index].is_usable && self.paths[index].state() != PathState::Active {
            // Nothing is alive; each sends what it can.
            return match oldest.filter(|block| self.carries(index, *block)) {
                Some(block) => Choice::Coded(block),
                None if has_new => Choice::Systematic,
                None => Choice::Nothing,
            };
        }
        if scheduler == Scheduler::Redundant
            && paths[index].is_usable
            && let Some(copied) = self.copies.front(self.paths[index].slot)
            && self.carries(index, copied.block)
        {
            return Choice::Copy(copied);
        }
        let repair = match scheduler {
            Scheduler::Auto => self.repair_that(index, &views, |before, paths| {
                auto::takes_repair(index, paths, before)
            }),
            Scheduler::Mp12 if paths[index].is_usable => self.repair_of_mp12(index, &views),
            Scheduler::MinRtt => {
                self.repair_that(index, &views, |_, paths| is_shortest_free(index, paths))
            }
            Scheduler::Redundant | Scheduler::Mp12 => self.repair_that(index, &views, |_, _| true),
        };
        if let Some(block) = repair {
            return Choice::Coded(block);
        }
        let takes_new = has_new
            && paths[index].is_usable
            && match scheduler {
                Scheduler::Auto => auto::takes_new(index, paths, self.backlog(content_max)),
                Scheduler::MinRtt => is_shortest_free(index, paths),
                Scheduler::Mp12 | Scheduler::Redundant => true,
            };
        if takes_new {
            Choice::Systematic
        } else {
            Choice::Nothing
        }
    }

    /// Coded packets of the block are short enough for the path.
    fn carries(&self, index: usize, block: u64) -> bool {
        self.sender.fits(block, self.paths[index].udp_payload_max())
    }

    /// The oldest block that wants a packet which path `index` carries and which
    /// the scheduler gives it. `takes` hears how many others come before, and the
    /// paths of which one could send it: those in use that it is not too long for;
    /// if there is none, any that is alive.
    fn repair_that(
        &self,
        index: usize,
        views: &Views,
        takes: impl Fn(usize, &[PathView]) -> bool,
    ) -> Option<u64> {
        let first = self.sender.oldest_ready();
        let blocks = core::iter::successors(first, |block| self.sender.next_ready(*block));
        let mut blocks = blocks.take(auto::REPAIRS_SEEN).enumerate();
        blocks
            .find(|(before, block)| {
                if !self.carries(index, *block) {
                    return false;
                }
                let all = views.all();
                let is_too_long = |at: usize| all[at].is_usable && !self.carries(at, *block);
                if !(0..all.len()).any(is_too_long) {
                    return all[index].is_usable && takes(*before, all);
                }
                let mut able = Views {
                    list: views.list,
                    len: views.len,
                };
                for at in 0..able.len {
                    able.list[at].is_usable &= self.carries(at, *block);
                }
                if !able.all().iter().any(|view| view.is_usable) {
                    for at in 0..able.len {
                        able.list[at].is_usable =
                            self.carries(at, *block) && self.paths[at].state() == PathState::Active;
                    }
                }
                able.list[index].is_usable && takes(*before, able.all())
            })
            .map(|(_, block)| block)
    }

    /// Algorithm 4 of [MP12]: the oldest block is judged with what other paths
    /// will have delivered, the others without. Below zero that counts as nothing:
    /// see docs/deviations.md.
    fn repair_of_mp12(&self, index: usize, views: &Views) -> Option<u64> {
        let current = self.sender.oldest_view();
        // What a silent path has in flight was given up: it delivers nothing.
        let mut alive = Views {
            list: views.list,
            len: views.len,
        };
        let silent = alive.list.iter_mut().filter(|view| !view.is_usable);
        silent.for_each(|view| view.in_flight = 0);
        let others = mp12::delivered_before(index, alive.all()).max(0.0);
        if let Some((block, view)) = current
            && view.falls_short_beside(others)
            && self.carries(index, block)
        {
            return Some(block);
        }
        let current = current.map(|(block, _)| block);
        let oldest = self.sender.oldest_ready();
        // Too long for this path, it is left to the others; withheld by its load,
        // it is passed over.
        let repair = self.repair_that(index, views, |before, _| {
            before > 0 || oldest != current || current.is_none()
        });
        repair.filter(|block| Some(*block) != current)
    }

    /// A new symbol went out on path `index`: with `redundant`, the others send it
    /// as well.
    pub(super) fn copy_symbol(&mut self, index: usize, copied: Copied) {
        if self.config.scheduler == Scheduler::Redundant && self.paths.len() > 1 {
            let usable = self.usable_paths();
            for (at, path) in self.paths.iter().enumerate() {
                if at != index && usable[at] {
                    self.copies.push(path.slot, copied);
                }
            }
        }
    }

    /// What the next token of path `index` pays for: a block that wants a packet,
    /// else new data.
    pub(super) fn choose(
        &mut self,
        now: Instant,
        index: usize,
        content_max: usize,
        is_probe: bool,
    ) -> Choice {
        let oldest_open = |this: &Self| {
            let block = this.sender.oldest_open()?;
            (this.paths.len() == 1 || this.carries(index, block)).then_some(block)
        };
        if self.config.scheduler == Scheduler::Redundant {
            let sender = &self.sender;
            let is_useless = |copied: Copied| !sender.is_wanted(copied.block, copied.place);
            self.copies.skip(self.paths[index].slot, is_useless);
        }
        let mut choice = self.pick(now, index, content_max);
        let is_spared = choice == Choice::Nothing && self.paths.len() > 1;
        // Whatever holds data back, the open block has its final count; unless
        // there is data, and this path only leaves it to others.
        if choice == Choice::Nothing
            && !(is_spared
                && self.streams.can_fill()
                && self.sender.has_room_for_symbol(content_max))
        {
            self.sender.close_open_block();
            choice = self.pick(now, index, content_max);
        }
        match choice {
            Choice::Nothing if is_probe => oldest_open(self).map_or(Choice::Nothing, Choice::Coded),
            choice => choice,
        }
    }
}
