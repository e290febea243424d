package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// stopSignal checks the signal that stops a container: which ones there are, the operating system says.
func stopSignal(s corev1.Signal, os *corev1.PodOS, at *field.Path) field.ErrorList {
	if os == nil || os.Name == "" {
		return field.ErrorList{field.Forbidden(at, "may not be set for containers with empty `spec.os.name`")}
	}
	known := linuxSignals()
	if os.Name == corev1.Windows {
		known = []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM}
	}
	if !slices.Contains(known, s) {
		return field.ErrorList{field.NotSupported(at, s, known)}
	}
	return nil
}

// linuxSignals are the names of Linux' signals, sorted. Those for programs' own use count from both ends.
func linuxSignals() []corev1.Signal {
	out := []corev1.Signal{corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT,
		corev1.SIGFPE, corev1.SIGHUP, corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL,
		corev1.SIGPIPE, corev1.SIGPOLL, corev1.SIGPROF, corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGSEGV, corev1.SIGSTKFLT,
		corev1.SIGSTOP, corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP, corev1.SIGTSTP, corev1.SIGTTIN, corev1.SIGTTOU,
		corev1.SIGURG, corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH, corev1.SIGXCPU, corev1.SIGXFSZ,
		corev1.SIGRTMIN, corev1.SIGRTMAX}
	for i := 1; i <= 15; i++ {
		out = append(out, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", i)))
	}
	for i := 1; i <= 14; i++ {
		out = append(out, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", i)))
	}
	slices.Sort(out)
	return out
}
