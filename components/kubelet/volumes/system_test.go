package volumes

import (
	"io/fs"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

func podUID(s string) types.UID { return types.UID(s) }

func groupOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Gid }
