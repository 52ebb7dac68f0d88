// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// How a machine boots. If systemd used the host's root filesystem, it would empty /tmp and write to
// /etc, /dev and /var. It therefore gets its own root filesystem. Like a container, systemd can
// access only its own processes, harmless devices, and control groups below its own. It cannot
// change kernel settings that affect the host.

// enterCgroupsScript is a shell script that moves the shell into control groups with a given
// name, in every hierarchy, and executes another program.
const enterCgroupsScript = `
set -e
name=$1
shift
hierarchies=/sys/fs/cgroup
[ -e $hierarchies/cgroup.procs ] || hierarchies=$(echo /sys/fs/cgroup/*)
for dir in $hierarchies; do
	[ -e $dir/cgroup.procs ] || continue
	mkdir -p $dir/$name
	for setting in cpuset.cpus cpuset.mems; do
		[ ! -e $dir/$setting ] || cat $dir/$setting >$dir/$name/$setting
	done
	echo $$ >$dir/$name/cgroup.procs
done
exec "$@"
`

// bootScript is a shell script that runs as the first process of new namespaces. It
// changes its root filesystem to a directory and executes systemd without the capabilities
// for clock, kernel modules, I/O ports and kernel log.
const bootScript = `
set -e
cd "$1"
mount --make-rprivate /
mount --rbind . .
cd "$1"

mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -t tmpfs -o mode=755 tmpfs run
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	[ -e proc/sys/$setting ] || continue
	mkdir -p run/sys/$setting
	cat proc/sys/$setting >run/sys/$setting/value
	mount --bind run/sys/$setting/value proc/sys/$setting
done
cat proc/sys/kernel/random/uuid >run/sys/boot_id
mount --bind run/sys/boot_id proc/sys/kernel/random/boot_id
mount -o remount,bind,ro proc/sys
[ ! -e proc/sysrq-trigger ] || mount --bind /dev/null proc/sysrq-trigger

mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
	for dir in /sys/fs/cgroup/*; do
		[ -e $dir/cgroup.procs ] || continue
		name=${dir##*/}
		mkdir sys/fs/cgroup/$name
		case $name in
		unified) mount -t cgroup2 cgroup2 sys/fs/cgroup/$name ;;
		systemd) mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/$name ;;
		*) mount -t cgroup -o $name cgroup sys/fs/cgroup/$name ;;
		esac
	done
	mount -o remount,ro sys/fs/cgroup
fi

mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
	touch dev/$name
	mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s null dev/kmsg
ln -s /proc/self/fd dev/fd

hostname "$2"
mkdir run/before
pivot_root . run/before
cd /
umount --lazy /run/before
rmdir /run/before
exec setpriv --bounding-set -sys_time,-sys_module,-sys_rawio,-syslog,-wake_alarm,-block_suspend /lib/systemd/systemd --log-target=journal
`
