/* version.h - which release this is: convoy --version, records, files and pages tell it. */
#ifndef CONVOY_BASE_VERSION_H
#define CONVOY_BASE_VERSION_H

#define CONVOY_VERSION "0.1.0"

/* "0.1.0+1f2e3d4c5b6a": the release and the commit it was built from, and ".dirty" where files were
 * not as in that commit. The release alone where the sources came without git. Static. */
const char *version_text(void);
#endif
