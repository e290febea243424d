package main

import (
	"os"
	"strconv"

	"k8s.io/klog/v2"
)

// adjustOOMScore tells the kernel what to kill last. A kubelet without the privilege runs all the same.
func adjustOOMScore(score int32) {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(score))), 0o644); err != nil {
		klog.Background().Info("Failed to set the OOM score of the kubelet", "oomScoreAdj", score, "err", err)
	}
}
