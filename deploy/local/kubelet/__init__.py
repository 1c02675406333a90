"""A kubelet whose containers are local processes: for a laptop, a test, a single machine.

What a container is here: a process group in a session of its own, run as the kubelet's user with the kubelet's view of
the disk and the network. There is no isolation.

* `image` is ignored and nothing is pulled: `command` names a program of this machine, found on PATH (the folder of the
  Python that runs the kubelet comes first, so ``python`` is that one). A container without `command` waits with
  CreateContainerError.
* The environment is clean: PATH, HOME, LANG, TMPDIR, HOSTNAME and what the pod declares. HOME, TMPDIR and the default
  working directory are one folder per start of a container, removed when the pod has finished.
* Volumes (emptyDir, configMap, secret, downwardAPI, projected of these, hostPath, persistentVolumeClaim) are folders.
  Paths cannot be mounted without root, so a container finds the folder's path in ``PENSTOCK_VOLUME_<NAME>`` and in
  ``PENSTOCK_MOUNT_<PATH>`` (upper case, all else as ``_``); a relative `mountPath` becomes a link in its working
  directory. Their content is that of the container's start. The folder of a claim lasts as long as the claim.
* Requested resources choose the node (see nodes.py) and bound nothing. securityContext, ports, hostAliases and service
  variables have no effect. Pods have the address 127.0.0.1, or one of their own on the loopback that they ask
  for (see workers/api/loopback_addresses.py).
  exec, attach, port-forward and gRPC probes are not offered.
* At most so many pods run at once; more stay Pending with the reason Unschedulable. Pods with scheduling gates wait
  until these are taken away.
* A pod that is being deleted is stopped and shows how it ended. It goes when its finalizers are gone; one that never
  had a place fails.

A pod survives a crash of the kubelet: each container runs under a shell of a few lines that writes the exit code to a
file. A kubelet that starts again finds its containers by these files and runs none twice. Without a kubelet for a
while the guard ends them (see deploy/local/supervisor/guard.py).
"""
