package containers

// Labels on everything that belongs to a cluster.
const (
	LabelCluster   = "io.quintet.cluster"
	LabelComponent = "io.quintet.component"
	LabelMember    = "io.quintet.member"
	// LabelOwner names the owner that removes the cluster: OwnerUser, or the process named by owner.Self.
	LabelOwner = "io.quintet.owner"
	// LabelRun tells one start from others of the same cluster name.
	LabelRun = "io.quintet.run"
	// LabelJoined marks a node that joined by a token: its container was started by the user, under any name.
	LabelJoined = "io.quintet.joined"
	// LabelClaim marks the container that exists while a cluster is started; see Exclusively.
	LabelClaim = "io.quintet.claim"
)

// OwnerUser owns clusters that outlive the process which started them.
const OwnerUser = "user"
