package verbs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func exit(args []string, _ Streams) (int, error) {
	code, err := number(args, 0, "the code")
	return code, err
}

// fail counts its runs in a file, which a test keeps in a volume that outlives the container.
func fail(args []string, s Streams) (int, error) {
	times, err := number(args, 0, "the number of failures")
	if err != nil || len(args) != 2 {
		return 2, fmt.Errorf("usage: fail N FILE")
	}
	runs := 0
	if content, err := os.ReadFile(args[1]); err == nil {
		if runs, err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
			return 2, fmt.Errorf("%s does not hold a count: %w", args[1], err)
		}
	}
	runs++
	if err := os.WriteFile(args[1], []byte(strconv.Itoa(runs)), 0o666); err != nil {
		return 2, err
	}
	fmt.Fprintf(s.Out, "run %d\n", runs)
	if runs <= times {
		return 1, nil
	}
	return 0, nil
}

func printLines(args []string, s Streams) (int, error) {
	plain, opts, err := options(args, "interval", "text", "stderr")
	if err != nil {
		return 2, err
	}
	n, err := number(plain, 0, "the number of lines")
	if err != nil {
		return 2, err
	}
	interval, err := duration(opts, "interval", 0)
	if err != nil {
		return 2, err
	}
	text, out := "line", s.Out
	if t, ok := opts["text"]; ok {
		text = t
	}
	if _, ok := opts["stderr"]; ok {
		out = s.Err
	}
	for i := 1; i <= n; i++ {
		if i > 1 {
			time.Sleep(interval)
		}
		if _, err := fmt.Fprintln(out, text, i); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

func echo(args []string, s Streams) (int, error) {
	_, err := fmt.Fprintln(s.Out, strings.Join(args, " "))
	return 0, err
}

func sleep(args []string, _ Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: sleep DURATION|forever")
	}
	ctx, stop := untilTerminated()
	defer stop()
	if args[0] == "forever" {
		<-ctx.Done()
		return 0, nil
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return 2, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return 0, nil
}

func trap(args []string, s Streams) (int, error) {
	_, opts, err := options(args, "delay", "exit", "ignore", "file")
	if err != nil {
		return 2, err
	}
	delay, err := duration(opts, "delay", 0)
	if err != nil {
		return 2, err
	}
	code := 0
	if text, ok := opts["exit"]; ok {
		if code, err = strconv.Atoi(text); err != nil {
			return 2, err
		}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
	fmt.Fprintln(s.Out, "waiting")
	for received := range signals {
		fmt.Fprintf(s.Out, "got %s\n", received)
		if file := opts["file"]; file != "" {
			if err := os.WriteFile(file, []byte(received.String()), 0o666); err != nil {
				return 2, err
			}
		}
		if _, ignore := opts["ignore"]; !ignore {
			break
		}
	}
	time.Sleep(delay)
	fmt.Fprintln(s.Out, "done")
	return code, nil
}

func spin(args []string, _ Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: spin DURATION")
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return 2, err
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
	return 0, nil
}

func allot(args []string, s Streams) (int, error) {
	mib, err := number(args, 0, "the number of MiB")
	if err != nil {
		return 2, err
	}
	block := make([]byte, mib<<20)
	for i := 0; i < len(block); i += os.Getpagesize() {
		block[i] = 1 // touch every page, or the kernel keeps none
	}
	fmt.Fprintf(s.Out, "holding %d MiB\n", mib)
	ctx, stop := untilTerminated()
	defer stop()
	<-ctx.Done()
	runtime.KeepAlive(block)
	return 0, nil
}

func env(args []string, s Streams) (int, error) {
	if len(args) == 0 {
		return 0, writeSorted(s.Out, os.Environ())
	}
	for _, name := range args {
		value, ok := os.LookupEnv(name)
		if !ok {
			return 1, fmt.Errorf("%s is not set", name)
		}
		fmt.Fprintln(s.Out, value)
	}
	return 0, nil
}

func whoami(_ []string, s Streams) (int, error) {
	groups, err := os.Getgroups()
	if err != nil {
		return 1, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	host, err := os.Hostname()
	fmt.Fprintf(s.Out, "uid=%d gid=%d groups=%v dir=%s host=%s pid=%d\n", os.Getuid(), os.Getgid(), groups, dir, host,
		os.Getpid())
	return 0, err
}

func untilTerminated() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}
