"""A kubelet whose containers are local processes: for a laptop, a test, a single machine.

What a container is here: a process group in a session of its own, run as the kubelet's user. Where the machine allows
it, it has a mount and a process namespace of its own (see containers/starter.py), in which the machine is read-only.

* Images are neither pulled nor run: `command` names a program of this machine, found on PATH (the folder of the Python
  that runs the kubelet comes first, so ``python`` is that one). A container without `command` runs what a table says
  of its image (see deploy/local/image_commands.py). If that says nothing, or names a program that is missing, the
  container waits with CreateContainerError, and the pod gets no node.
* The environment is clean: PATH, HOME, LANG, TMPDIR, HOSTNAME and what the pod declares. HOME, TMPDIR and the default
  working directory are one folder per start of a container, removed when the pod has finished.
* Volumes (emptyDir, configMap, secret, downwardAPI, projected of these, hostPath, persistentVolumeClaim) are folders.
  A container finds the folder's path in ``PENSTOCK_VOLUME_<NAME>`` and in ``PENSTOCK_MOUNT_<PATH>`` (upper case, all
  else as ``_``); where it has no namespaces, a relative `mountPath` becomes a link in its working directory, and an
  absolute one is not made. Their content is that of the container's start. The folder of a claim lasts as long as the
  claim.
* An isolated container finds the API server as on any cluster, by files of its service account and by variables (see
  pods/api_server_access.py).
* Requested resources choose the node (see presented_nodes.py) and bound nothing. securityContext, ports and
  hostAliases have no effect. Pods have the address 127.0.0.1, or one of their own on the loopback that they
  ask for (see workers/api/loopback_addresses.py). The input of containers and gRPC probes are not offered.
* exec, attach and port-forward are served on a Unix socket in the folder of the logs, for the API server (`streams`).
* At most so many pods run at once; more stay Pending with the reason Unschedulable. A pod that runs nothing because its
  containers cannot be started does not count; when one can, it waits for its turn (OutOfpods). Pods with scheduling
  gates wait until these are taken away.
* A pod that is being deleted is stopped and shows how it ended. It goes when its finalizers are gone; one that never
  had a place fails.

A pod survives a crash of the kubelet: each container runs under a shell of a few lines that writes the exit code to a
file. A kubelet that starts again finds its containers by these files and runs none twice. Without a kubelet for a
while the guard ends them (see deploy/local/supervisor/guard.py).
"""
