# A host's first process, in namespaces of its own (hosts.py): makes them a machine and turns into its ssh server.
#   boot.sh FOLDER NAME NUMBER BRIDGE_PID CHANGED_ROOT READ_ONLY...
set -eu
folder=$1 name=$2 number=$3 bridge=/proc/$4/ns/net change=$5
shift 5

hostname "$name"
nsenter --net="$bridge" sh -ec "ip link delete dev $name 2>/dev/null || true
    ip link add name $name type veth peer name eth0 address 02:00:00:00:00:0$number netns 1
    ip link set dev $name master hosts up"
ip link set lo up
ip address add "10.77.0.$number/24" dev eth0
ip link set eth0 up
ip route add default via 10.77.0.254

# Its own root: the machine's, read-only, with folders of its own where a machine writes. The folder of the host itself
# is at the same path inside and outside.
new=$folder/new
mkdir -p "$new"
mount --make-rprivate /
mount --bind / "$new"
for place in tmp var/tmp root home run srv var/log; do
    mkdir -p "$folder/$place"
    mount --bind "$folder/$place" "$new/$place"
done
chmod 1777 "$folder/tmp" "$folder/var/tmp"
for file in hosts passwd group resolv.conf; do
    mount --bind "$folder/etc/$file" "$new/etc/$file"
done
for place in "$folder" "$@"; do
    mkdir -p "$new$place"
    mount --bind "$place" "$new$place"
done
for place in "" "$@"; do
    mount -o remount,bind,ro "$new$place"
done
mount -t proc proc "$new/proc"
mount --rbind /dev "$new/dev"
mount --rbind /sys "$new/sys"
mount -t tmpfs -o mode=1777,size=1g tmpfs "$new/dev/shm"
mkdir -p "$folder/run/sshd"
read -r outside _ </proc/self/stat
cd "$new"
# Said from inside the new root: whoever reads it may enter at once.
set -- sh -c 'echo "$0"; exec "$@"' "$outside" /usr/sbin/sshd -D -f "$folder/etc/sshd_config"
if [ "$change" = chroot ]; then # where no process may make a user namespace
    exec chroot . "$@"
fi
pivot_root . .
umount --lazy .
exec "$@"
