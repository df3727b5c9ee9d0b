/* library_versions.h - the image libraries that this program was compiled with. */
#ifndef CONVOY_DATA_DECODE_LIBRARY_VERSIONS_H
#define CONVOY_DATA_DECODE_LIBRARY_VERSIONS_H
/* "libjpeg-turbo 2.1.5, libspng 0.7.3", for convoy --version. Static. */
const char *library_versions(void);
#endif
