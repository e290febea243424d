package verbs

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// threads starts threads that all stay. The runtime ends the program, with code 2, where it can't have one.
func threads(args []string, s Streams) (int, error) {
	n, err := number(args, 0, "the number of threads")
	if err != nil {
		return 2, err
	}
	const ownThreads = 100
	debug.SetMaxThreads(n + ownThreads)
	started, stop := make(chan struct{}), make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-stop
		}()
	}
	for range n {
		<-started
	}
	close(stop)
	fmt.Fprintf(s.Out, "had %d threads\n", n)
	return 0, nil
}

// terminal polls: a terminal gets its size after the program that runs in it has started.
func terminal(args []string, s Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: terminal WIDTHxHEIGHT")
	}
	const patience = 5 * time.Second
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return 1, fmt.Errorf("no terminal: %w", err)
		}
		if last = fmt.Sprintf("%dx%d", size.Col, size.Row); last == args[0] {
			fmt.Fprintln(s.Out, "terminal", last)
			return 0, nil
		}
	}
	return 1, fmt.Errorf("the terminal is %s", last)
}

func head(args []string, s Streams) (int, error) {
	n, err := number(args, 0, "the number of bytes")
	if err != nil || len(args) != 2 {
		return 2, fmt.Errorf("usage: head BYTES FILE")
	}
	file, err := os.Open(args[1])
	if err != nil {
		return 1, err
	}
	defer file.Close()
	_, err = io.Copy(s.Out, io.LimitReader(file, int64(n)))
	return 0, err
}

// sizes seeks to the end: of devices that tells what stat does not.
func sizes(args []string, s Streams) (int, error) {
	for _, name := range args {
		file, err := os.Open(name)
		if err != nil {
			return 1, err
		}
		end, err := file.Seek(0, io.SeekEnd)
		_ = file.Close() // nothing was written
		if err != nil {
			return 1, err
		}
		fmt.Fprintln(s.Out, end)
	}
	return 0, nil
}

// resources asks a kubelet which devices the containers of the node have (KEP-606).
func resources(args []string, s Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: resources SOCKET")
	}
	conn, err := grpc.NewClient("unix://"+args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 1, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return 1, err
	}
	var lines []string
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			words := []string{pod.GetNamespace() + "/" + pod.GetName() + "/" + c.GetName()}
			for _, devices := range c.GetDevices() {
				words = append(words, devices.GetResourceName()+"="+strings.Join(devices.GetDeviceIds(), ","))
			}
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return 0, writeSorted(s.Out, lines)
}
