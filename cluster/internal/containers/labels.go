package containers

// Labels on everything that belongs to a cluster.
const (
	LabelCluster   = "io.quintet.cluster"
	LabelComponent = "io.quintet.component"
	LabelMember    = "io.quintet.member"
	// LabelOwner tells who removes the cluster: OwnerUser, or the process named by owner.Self.
	LabelOwner = "io.quintet.owner"
)

// OwnerUser owns clusters that outlive the process which started them.
const OwnerUser = "user"
