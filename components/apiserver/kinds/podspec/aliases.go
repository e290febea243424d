package podspec

import corev1 "k8s.io/api/core/v1"

// syncServiceAccount keeps the two names of one field the same: readers of either are served.
func syncServiceAccount(s *corev1.PodSpec) {
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
}

// SyncServiceAccount is called once more before a pod is stored: admission may have named an account.
func SyncServiceAccount(p *corev1.Pod) { p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName }

// SyncStatusIPs keeps the single addresses and the lists the same; the single one wins.
func SyncStatusIPs(s *corev1.PodStatus) {
	switch {
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	}
}
