# engine.sh begin|small|sessions|kill|empty|end: an engine of a story's own in its $WORK.
cd $WORK
case $1 in
begin)
	shift
	mkdir -p e
	rm -f e/pid engine/x/containerd/containerd.pid
	TMPDIR=/tmp setsid dockerd "$@" --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
		--data-root $WORK/engine/root --exec-root $WORK/engine/x --pidfile $WORK/e/pid -H unix://$WORK/e/sock >>e/log 2>&1 </dev/null &
	for try in $(seq 600); do
		curl -s --unix-socket e/sock http://engine/_ping | grep -q OK && exit 0
		kill -0 $! || break
		sleep 0.1
	done
	tail -20 e/log >&2
	exit 1
	;;
small)
	mkdir -p root/bin root/tmp root/etc root/var/tmp root/proc root/sys root/dev
	for p in sh sleep date; do
		cp $(readlink -f $(command -v $p)) root/bin/$p
		ldd root/bin/$p | grep -o '/[^ ]*' | while read -r l; do mkdir -p root${l%/*} && cp -Lu $l root$l; done
	done
	tar -C root -cf - . | docker import - small:1 || exit 1
	;;
sessions)
	sh engine.sh small || exit 1
	for n in one two three; do
		cloister start -d --name $n -C $n --agent sh -- -c 'while :; do date; sleep 0.2; done' || exit 1
	done
	;;
kill)
	pid=$(cat e/pid) under=$(cat engine/x/containerd/containerd.pid) && kill -$2 $pid || exit 1
	for try in $(seq 200); do
		[ -d /proc/$pid ] || [ -d /proc/$under ] || exit 0
		sleep 0.1
	done
	echo "it does not end" >&2
	exit 1
	;;
empty)
	left=$(docker ps -aq --no-trunc) && [ -z "$left" ] && exit 0
	# Should one stay, this is what a log of the story shows of it.
	docker ps -a --no-trunc --format '{{.ID}} {{.Names}} {{.State}}: {{.Status}}'
	docker inspect -f '{{.Name}} {{json .State}}' $left 2>&1
	tail -60 e/log
	exit 1
	;;
end)
	sh engine.sh kill TERM
	awk -v at="$WORK/engine/" 'index($5, at) == 1 {print $5}' /proc/self/mountinfo | sort -r | while read -r at; do umount "$at"; done
	rm -rf e engine root
	;;
esac
