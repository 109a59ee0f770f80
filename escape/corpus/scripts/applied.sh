set -e
umask 0
cp /bin/sh setid; chmod 755 setid
mkdir closed; echo in >closed/in; chmod 000 closed
mkfifo pipe
mknod null c 0 0 || true
ln -s /etc/passwd out1; ln -s ../outside/canary out2; ln -s gone/../../outside out3
ln -s . here; ln -s here/../outside/canary out4
rm -r swapped; ln -s ../outside swapped
ln main.go hard
printf hello >"$(printf 'line\nbreak')"
printf hello >"$(printf 'esc\033[2Jape')"
printf hello >-rf
truncate -s 4T sparse
setfattr -n user.evil -v yes plain 2>/dev/null || python3 -c 'import os; open("plain","w").write("x"); os.setxattr("plain","user.evil",b"yes")'
echo ours >>main.go
mkdir -p nested/.git/hooks; echo bad >nested/.git/hooks/pre-commit
echo bad >.envrc
