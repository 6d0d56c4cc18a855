//! What people get wrong, or what their machines do to them: each says what was
//! wrong, with which value, and what to do, and leaves nothing half-written.

use super::page::Command;
use super::world::World;

fn fails(machine: &str, text: &str, exit: i32, expected: &[&str]) -> Command {
    Command {
        machine: machine.to_owned(),
        text: text.to_owned(),
        expected: expected.iter().map(|&line| line.to_owned()).collect(),
        exit,
        ..Command::default()
    }
}

pub(crate) fn mistakes_are_answered_with_the_remedy(is_root: bool) {
    let mut world = World::new(is_root);
    let server = "ctcp server --public server.example --invite anna";
    world.run(&fails("server", server, 0, &[]));
    let second = "ctcp server --public server.example --invite ben --state elsewhere";
    let said = ["…0.0.0.0:4500: Address already in use…--listen ADDR:PORT…"];
    world.run(&fails("server", second, 2, &said));

    world.run(&fails("client", "ctcp keygen --out my.key", 0, &[]));
    let typo = "ctcp connect example.org:80 --server sever.example:4500 --key my.key \
                --server-key jI3cVuwl0xzOph9RGB3l5sEqY2tYOPUbw7gbaQoHZSY";
    let said = ["…sever.example does not resolve…", "…misspelt…offline"];
    world.run(&fails("client", typo, 4, &said));

    // The disk has room when the transfer begins, and none later.
    let photos = "mkdir -p photos && head -c 20000000 /dev/urandom > photos/film.mp4";
    world.run(&fails("here", photos, 0, &[]));
    let receive = "mkdir -p small && mount -t tmpfs -o size=24m none small; \
                   (until ls -A small | grep -q part; do sleep 0.02; done; \
                   head -c 10000000 /dev/zero > small/other) & \
                   ctcp receive --public there.example small; status=$?; \
                   ls -A small > names; exit $status";
    let said = ["…make room…"];
    world.run(&fails("there", receive, 1, &said));
    world.run(&fails("here", "ctcp send photos/ --to -", 1, &said));
    // Written once the receiver has ended.
    let names = "until [ -s names ]; do sleep 0.1; done; ! grep -x film.mp4 names";
    world.run(&fails("there", names, 0, &[]));

    // A folder that takes nothing.
    let receive = "mkdir -p locked && mount -t tmpfs -o ro none locked && \
                   ctcp receive --public there.example locked";
    let said = ["…locked: Read-only file system…folder that can be written…"];
    world.run(&fails("there", receive, 2, &said));
    world.end();
}
