/* Makes each system call of one kind in a process of its own, with arguments
   that are wrong for all of them (-1), and tells what came of it:
   NUMBER RESULT, where RESULT is the kernel's answer or "signal N". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long call64(long nr) {
	long ret;
	register long r10 __asm__("r10") = -1, r8 __asm__("r8") = -1, r9 __asm__("r9") = -1;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(-1L), "S"(-1L), "d"(-1L), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

static long call32(long nr) {
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(-1L), "c"(-1L), "d"(-1L), "S"(-1L), "D"(-1L) : "r8", "r9", "r10", "r11", "memory");
	return (int)ret;
}

int main(int argc, char **argv) {
	struct rlimit none = {0, 0};
	volatile long *out = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, status;
	setrlimit(RLIMIT_CORE, &none);
	for (i = 2; i < argc; i++) {
		long nr = atol(argv[i]);
		pid_t child;
		*out = 0;
		fflush(stdout);
		child = fork();
		if (child < 0) {
			perror("fork");
			return 1;
		}
		if (child == 0) {
			alarm(nr == SYS_pause ? 1 : 30);
			if (strcmp(argv[1], "i386") == 0)
				*out = call32(nr);
			else
				*out = call64(strcmp(argv[1], "x32") == 0 ? nr | 0x40000000 : nr);
			syscall(SYS_exit_group, 0);
		}
		if (waitpid(child, &status, 0) < 0) {
			perror("waitpid");
			return 1;
		}
		if (WIFSIGNALED(status))
			printf("%ld signal %d\n", nr, WTERMSIG(status));
		else
			printf("%ld %ld\n", nr, *out);
	}
	return 0;
}
