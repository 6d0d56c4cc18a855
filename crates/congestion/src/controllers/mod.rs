//! The controllers by name, one file each.

mod auto;
mod bbr;
mod cc14;
mod cc14_compound;
mod cc14_cubic;
mod compound;
mod cubic;
mod htcp;
mod hybla;
mod mp12;
mod reno;
mod sat;
mod tcp_cd;
mod vegas;
mod veno;
mod westwood;

pub use auto::{Auto, auto};
pub use bbr::{Bbr, bbr};
pub use cc14::cc14;
pub use cc14_compound::cc14_compound;
pub use cc14_cubic::cc14_cubic;
pub use compound::compound;
pub use cubic::cubic;
pub use htcp::htcp;
pub use hybla::hybla;
pub use mp12::{Mp12, mp12};
pub use reno::reno;
pub use sat::sat;
pub use tcp_cd::{TcpCd, WindowBlock, WindowLoss, scaled_window, tcp_cd, window_block};
pub use vegas::vegas;
pub use veno::veno;
pub use westwood::westwood;
